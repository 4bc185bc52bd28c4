"""The deadlines paper's simulation: jobs with a required start on clusters with users of their own.

The model:

- Clusters have an FCFS queue each, which local users fill.
- Global jobs have components that must start together at their deadline D.
- Tries come at the instants of the Repeated Placement Policy (koala.core.model.timeline).
- Components are placed Worst-Fit.
- Victims at D are chosen by the live policies (koala.policies).
- A claim takes idle processors even if a local job waits for more than are idle.
- Processors that were claimed before D are held unused until then.

The window of measurement runs from the end of the warm-up to the end of the run. It counts:

- deadlines that come in it, and how many of them are met;
- local jobs submitted, killed or completed in it, with their response times;
- processor-seconds that pass in it.

Events in the window are counted, not the fate of jobs that arrive in it. So neither short leads nor
short responses are favoured at its ends.
"""
