"""The steps of the pipeline: functions of the state, one module a step.

queueing, scanning, rounds   enqueue a job; decide whose turn it is to be placed
placing                      ask the placement policy for sites
claiming_schedule, claiming  when a claiming try is due; claim, hear the answers, judge
preflight, starting          try TCP paths; arm, release, pass: the barrier
progress_control             hold components of a running job together
claim_end, ending            the end of a claim; finish, fail, cancel, set back, fence
site_events, refusals        sites come, go and report; sites that refuse a job
wanted                       all that a site must know, as a function of the state
"""
