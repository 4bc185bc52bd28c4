"""Sentences of the paper that these simulations cannot test, with the reason (Multiple queues)."""

from __future__ import annotations

from koala.lab.papers.paper import Untestable, numbered

NO_LOG = "the log of the cluster is not public"
MECHANISM = "an explanation; the discipline is as told, and its consequence is tested as"

UNTESTABLE = numbered(
    {
        "2.2-1": Untestable(
            "Request sizes on the largest DAS cluster prefer small numbers and powers of two "
            "(figure 1), as the distributions used do.",
            f"{NO_LOG}; D(q) prefers both by its definition",
        ),
        "2.2-2": Untestable(
            "Most jobs ran for less than 15 minutes, the limit in working hours (figure 2).", NO_LOG
        ),
        "2.4-1": Untestable(
            "Unordered requests model applications like FFT.",
            "about applications, which the model does not have",
        ),
        "1-2": Untestable(
            "Co-allocation pays if wide-area communication slows jobs down by no more than 25 %.",
            "a result of another paper; the model has no communication",
        ),
        "2.5-8": Untestable(
            "To let local schedulers work only when several of their queues are longer than the "
            "global one would be much to their disadvantage.",
            "about a policy that the paper does not define",
        ),
        "2.5-7": Untestable(
            "Communication would not change the quality of the results.",
            "the model has no communication",
        ),
        "3.1.1-26": Untestable(
            "With LS-DO, a queue that is disabled again and again by the same large job advances "
            "until it is enabled first.",
            f"{MECHANISM} 3.1.1-10 and 3.1.1-11",
        ),
        "3.1.1-27": Untestable(
            "LS-OR empties the queues visited first, so there are fewer jobs to choose from.",
            f"{MECHANISM} 3.1.1-4 to 3.1.1-7",
        ),
        "3.1.1-28": Untestable(
            "At high load, the clusters that held the larger components have more idle processors "
            "when a job departs.",
            f"{MECHANISM} 3.1.1-13; idle processors are not among the results",
        ),
        "3.1.1-29": Untestable(
            "LS-DO keeps in balance the numbers of jobs that are run from each queue.",
            "below saturation every policy runs as many as arrive; the lengths are tested as "
            "3.1.1-3 and 3.1.1-24",
        ),
        "3.2.1-36": Untestable(
            "Imposing an order among queues lets jobs fit better than mixing them at random.",
            f"{MECHANISM} 3.2.1-11",
        ),
        "3.3-23": Untestable(
            "LQ limits the delay of the jobs behind a large one.",
            "who waits behind whom is not among the results; the means of the queues are (3.3-11)",
        ),
        "3.3-22": Untestable(
            "Owners of clusters would not like their local jobs to be delayed for global ones.",
            "about people",
        ),
    }
)
