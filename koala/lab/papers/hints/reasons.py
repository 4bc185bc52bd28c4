"""Reasons why claims of the hints paper fail on our grid; figures from the published full run."""

from __future__ import annotations

REASONS = {
    "5.3-4": "they have 72 to 74 % of it in the mean: the hints accept the half, which is ours, "
    "and such a job gets what is left of a site; with three quarters accepted the claim holds",
    "5.3-5": "at 74 % of its preferred rate a CPU-bound job takes 34,000 s instead of 25,000, and "
    "PreferLocal makes the same jobs wait for less than that; from 0.0006 jobs a second on they "
    "would wait for longer, and the claim holds",
    "5.4-3": "who insists on 1000 MIPS leaves 1400 of the grid's 12,000 MIPS idle; under this load "
    "Service needs them, and the queue of the others grows. With 800 MIPS preferred it holds, and "
    "by the choice of the site alone, too (5.4-3a)",
    "5.4-4": "I/O-bound jobs have half the instructions, so that every policy has less to do; "
    "against PreferLocal it does degrade (5.4-5), and with 3 Mb/s between sites as it stands",
    "5.4-8": "the links of the paper are lost; ours carry at most seven tenths of what they can, "
    "and no reading that was tried saturates them",
    "5.4-9": "NoNetwork books no bandwidth: its jobs share links and hold their processors while "
    "they starve, so that it stays two to three times slower; the other two do converge (5.4-10)",
}
