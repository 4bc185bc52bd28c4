"""Reasons why claims of the multiple-queues paper fail, as far as they were found out.

Figures are mean service times, from short runs at 98 % of the charts' limits (5 of 8,000 jobs).
"""

from __future__ import annotations

HARDLY_WAIT = (
    "local jobs hardly wait when the local queues are enabled first: in (25,25,25,25) 0.14 of a "
    "mean service time, against 0.5 when the global one is. That rise is small beside the global "
    "queue's response of 7 to 9, and on the axis of such a chart, but it is 30 % of the local "
    "response. At 80 % of the limit it is 9 %"
)
RARELY_LONGEST = (
    "with 90 % local jobs the global queue is rarely longer than every local one, and only then "
    "LQ starts a global job. LP does so whenever a local queue is empty: global jobs respond in "
    "9.1 with LQ, in 4.3 with LP"
)
LOCAL_COUNT = (
    "in (90,0,0,10) LP lets global jobs wait longer than EQ, as the paper says (4.3 against 4.0), "
    "and local ones less (1.9 against 2.2); nine of ten jobs are local, and decide the total"
)
NEAREST = (
    "the factor is mostly that of the worst policy, and tells how near a chart stands to the "
    "maximum of that policy: by 0.02 in each of ours, whatever the mix. The paper does not print "
    "its utilisations"
)

REASONS = {
    "2.5-6": "GP, LP and EQ give the same to the last digit in either order. LQ does not: it "
    "compares the lengths of the queues before each start, so that the local queue that is "
    "visited first decides when the global one becomes the longest",
    "3.1.1-13": "at 90 % single-component jobs they wait behind a multi-component one that gets "
    "little chance (3.1.1-16): each queue is first come, first served. The paper itself calls "
    "LS-RO a bad choice there (3.1.1-15)",
    "3.1.1-16": "with 90 % single-component jobs it holds. With 80 % the others respond as under "
    "LS-RD, in 3.2, near the limit and below it. That it takes so many single-component jobs was "
    "not explained",
    "3.1.2-3": HARDLY_WAIT,
    "3.1.2-11": HARDLY_WAIT,
    "3.1.3-3": HARDLY_WAIT,
    "3.1.3-11": HARDLY_WAIT,
    "3.1.3-28": HARDLY_WAIT,
    "3.2.1-9": "the maxima of GS, GP, LP, EQ and LQ are the same to 0.005 (0.905): in all of them "
    "75 % of the jobs or more pass one queue, whose head blocks it. Near its maximum a queue that "
    "fills for long looks saturated in a run that is too short",
    "3.2.1-19": NEAREST,
    "3.2.1-20": NEAREST,
    "3.2.1-24": f"{LOCAL_COUNT}. GS, too, is good there: it runs jobs of one component anywhere",
    "3.2.1-25": LOCAL_COUNT,
    "3.2.1-29": "in (90,0,0,10) its total is 3.6, as that of GP, and 2.1 with LP and GS, 2.4 with "
    "EQ: while the global queue is the longest and its head does not fit, LQ starts nothing, "
    "as GP does; else it makes global jobs wait, and more than LP does (9.1 against 4.3)",
    "3.2.3-4": "visited first or not, the single-component jobs of that queue run at its cluster "
    "alone, which gets 40 % of them, and the others 20 % each: 3.3 against 1.7. It responds "
    "quicker than under the other versions (3.1.1-22)",
    "3.3-9": RARELY_LONGEST,
    "3.3-11": RARELY_LONGEST,
    "3.3-17": HARDLY_WAIT,
    "3.3-21": HARDLY_WAIT,
    "4-6": HARDLY_WAIT,
    "4-8": f"{HARDLY_WAIT}. As shares of themselves local jobs gain more than all jobs lose, "
    "though not in time",
}
