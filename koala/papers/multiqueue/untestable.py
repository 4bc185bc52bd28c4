"""Sentences of the paper that these simulations cannot test, with the reason (Multiple queues)."""

from __future__ import annotations

from koala.papers.paper import Untestable

NO_LOG = "the log of the cluster is not public"
MECHANISM = "an explanation; the discipline is as told, and its consequence is tested as"

UNTESTABLE = (
    Untestable(
        id="2.2-1",
        section="2.2",
        text="Request sizes on the largest DAS cluster prefer small numbers and powers of two "
        "(figure 1), as the distributions used do.",
        reason=f"{NO_LOG}; D(q) prefers both by its definition",
    ),
    Untestable(
        id="2.2-2",
        section="2.2",
        text="Most jobs ran for less than 15 minutes, the limit in working hours (figure 2).",
        reason=NO_LOG,
    ),
    Untestable(
        id="2.4-1",
        section="2.4",
        text="Unordered requests model applications like FFT.",
        reason="about applications, which the model does not have",
    ),
    Untestable(
        id="2.5-6",
        section="2.5",
        text="Communication would not change the quality of the results.",
        reason="the model has no communication",
    ),
    Untestable(
        id="3.1.1-24",
        section="3.1.1",
        text="With LS-DO, a queue that is disabled again and again by the same large job advances "
        "until it is enabled first.",
        reason=f"{MECHANISM} 3.1.1-10 and 3.1.1-11",
    ),
    Untestable(
        id="3.1.1-25",
        section="3.1.1",
        text="LS-OR empties the queues visited first, so there are fewer jobs to choose from.",
        reason=f"{MECHANISM} 3.1.1-4 to 3.1.1-7",
    ),
    Untestable(
        id="3.1.1-26",
        section="3.1.1",
        text="At high load, the clusters that held the larger components have more idle processors "
        "when a job departs.",
        reason=f"{MECHANISM} 3.1.1-13; idle processors are not among the results",
    ),
    Untestable(
        id="3.2.1-36",
        section="3.2.1",
        text="Imposing an order among queues lets jobs fit better than mixing them at random.",
        reason=f"{MECHANISM} 3.2.1-11",
    ),
    Untestable(
        id="3.3-22",
        section="3.3",
        text="Owners of clusters would not like their local jobs to be delayed for global ones.",
        reason="about people",
    ),
)
