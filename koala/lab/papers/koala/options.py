"""Options of KOALA's experiment: its setting, parameters of the scheduler, and rates of faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koala.common.runtime.option_values import numbers
from koala.lab.papers.koala.simulation import setting as das
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.sim.options import Declared, Option

RATES = {
    "claim_errs": Option(
        default=None,
        help="Probability that a claim errs: at every site, or at each.",
        metavar="FRACTION,...",
        unset="0.01, and 0.1 at the lost site",
    ),
    "component_fails": Option(
        default=None,
        help="Probability that a running component is lost, likewise.",
        metavar="FRACTION,...",
        unset="0.06, and 0.2 at the lost site",
    ),
}
USUAL_RATES = {
    "claim_errs": (das.CLAIM_ERRS, das.CLAIM_ERRS_BAD),
    "component_fails": (das.COMPONENT_FAILS, das.COMPONENT_FAILS_BAD),
}


def _setting(**values: Any) -> Setting:  # noqa: ANN401
    """Make the setting; the parameters of the scheduler, and rates at the lost site, are not its
    fields."""
    limits = {name: values.pop(name) for name in das.SCHEDULER}
    limits["claim_fraction_min"] = min(limits["claim_fraction_min"], limits["claim_fraction"])
    for name, (rate, bad_rate) in USUAL_RATES.items():
        if values[name] is None:
            count, lost = len(values["sites"]), values["lost_site"]
            values[name] = tuple(bad_rate if n == lost else rate for n in range(1, count + 1))
        else:
            values[name] = numbers(name.replace("_", "-"), values[name])
    return Setting(parameters=replace(das.PARAMETERS, **limits), **values)


SIMULATION = Declared.of(Setting, make=_setting, more={**das.SCHEDULER, **RATES})
