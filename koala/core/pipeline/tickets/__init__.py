"""Tickets: claims that wait in the local queues of busy sites, and come up together.

A job that no idle processors can take now, because jobs of others are in the way, gets tickets in
the local queues of the sites that could take it: there its wait counts. A policy plans which of
them may start. The others are gated, and keep their places. A ticket that comes up holds its
processors for a short time, or is given back; a younger one has the next place. At sites that book
processors it may also have a booking: a ticket that begins at a planned instant.

A component whose ticket came up rests: for a while it opens and books no other one, unless it is
the last that is lacking. Each rest of an attempt is twice the one before, so that no plan can ask a
site for processors, and give them back, many times in a row. It counts from when the ticket came
up: after a hold of some minutes it is over.

A refused booking is asked for again where nobody else is in the way any more: what was just about
to end may have been. Each time the refusal is believed for twice as long.

A plan is made when a ticket is queued, starts, ends or has its first expected start, and at least
once in `ticket_plan_s`. All tickets are withdrawn as soon as each component is held that the job
needs. It starts without optional ones that are not held by then.

eligibility    which jobs may wait in the queues of busy sites
plans          when a plan is made, and what follows from it as a whole
questions      what the policy is told of each component at each of its sites
parts          the plan of one component at one site: its tickets, gates and bookings
leaving        a site is left, or a hold given back
ticket_events  a ticket starts, ends or is lost, or its start is told
"""
