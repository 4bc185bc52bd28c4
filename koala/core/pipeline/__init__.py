"""The steps of the pipeline: functions of the state, one module a step.

queueing, rounds             enqueue a job; choose the next jobs to place
placing                      ask the placement policy for sites
claiming_schedule, claiming  schedule claiming tries; claim, receive answers, evaluate
starting                     try TCP paths; arm, release, pass: the barrier
progress_control             keep the components of a running job together
claim_end, ending            end a claim; finish, fail, cancel, set back, fence
site_events                  handle registrations and reports of sites
refusals                     count refusals and errors against sites; back off from them
wanted                       compute the wanted state of a site
"""
