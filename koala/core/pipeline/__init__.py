"""The steps of the pipeline: functions of the state, one module a step.

queue_entry                  put jobs into the placement queues; `dependencies` keep some outside
queueing                     accept submissions; scan the high and the low queue in turn
queue_rounds, ordered_scan   scan several queues in rounds; one queue in a chosen order
placement_requests, placing  ask the placement policy for sites
copying                      assign the sites, and start the copies of input files
claiming_schedule, claiming  schedule claiming tries; claim, preempt, receive answers, evaluate
tickets                      wait in the queues of busy sites, and come up together
start_barrier                try TCP paths; arm, release, pass: the barrier
progress_control             keep the components of a running job together
resizing                     let components of malleable jobs join and leave while they run
claim_end, ending            end a claim; finish, fail, cancel
requeueing                   set a job back: stop its attempt, queue it again behind the fence
site_events                  handle registrations and reports of sites
refusals                     count refusals and errors against sites; back off from them
wanted                       compute the wanted state of a site
"""
