"""Commands without a plan: ``accountant dp-sgd``, ``gaussian``, ``laplace`` and ``pate``."""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from accountant.cli.answers import Answer, add_output, check_write, write_answer
from accountant.cli.single_releases import add_single_releases
from accountant.dp_sgd import SAMPLERS, PrivateTraining, dp_sgd
from accountant.errors import DeltaWarning, PlanError, caution_of_delta
from accountant.terminal import number, show_work, whole

__all__ = ["add_one_shot"]


def add_one_shot(commands: Any) -> None:
    """Add the subcommands to a parser's commands."""
    text = "Price a DP-SGD training, or find its noise for a target."
    parser = commands.add_parser("dp-sgd", help=text, description=text)
    parser.set_defaults(run=_run_dp_sgd)
    add = parser.add_argument
    add("--records", type=whole, required=True, help="records in the data")
    add("--batch", type=whole, required=True, help="records in a batch, on average")
    add("--epochs", type=number, help="passes over the data; not needed with --phase")
    add("--epsilon", type=number, help="a target: find the least noise multiplier that meets it")
    add("--sigma", type=number, help="the noise multiplier: standard deviation of the noise over the clipping norm")
    add(
        "--phase",
        type=_phase,
        action="append",
        metavar="SIGMA:STEPS",
        help="a phase with a noise multiplier of its own (repeatable)",
    )
    add("--delta", type=number, required=True, help="well below 1 over the number of records")
    add("--stop-at", type=whole, metavar="STEP", help="price the first so many steps only; the noise is that of all")
    add(
        "--sampler",
        default="poisson",
        choices=list(SAMPLERS),
        help="how batches are drawn; fixed-size and shuffle need --adjacency replace, and shuffle is not amplified",
    )
    add_output(parser)
    add_single_releases(commands)


def _phase(text: str) -> tuple[float, int]:
    """SIGMA:STEPS, for argparse."""
    sigma, colon, steps = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not SIGMA:STEPS, such as 0.8:2000")
    return number(sigma), whole(steps)


def _run_dp_sgd(options: argparse.Namespace) -> int:
    check_write(options)
    given = {"--epsilon": options.epsilon, "--sigma": options.sigma, "--phase": options.phase}
    if sum(value is not None for value in given.values()) != 1:
        stated = ", ".join(name for name, value in given.items() if value is not None) or "none"
        raise PlanError(f"{stated} of --epsilon, --sigma and --phase; accepted: exactly one of them")
    with show_work("the price of the training"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeltaWarning)  # a note of the answer says it
        training = dp_sgd(
            options.records,
            options.batch,
            options.epochs,
            delta=options.delta,
            sigma=options.sigma,
            epsilon=options.epsilon,
            phases=options.phase,
            stop_at=options.stop_at,
            sampler=options.sampler,
            adjacency=options.adjacency,
            tolerance=options.tolerance,
        )
    return write_answer(_answer(training), options)


def _answer(training: PrivateTraining) -> Answer:
    noise = [f"{sigma!r} for {steps:,} steps" for sigma, steps in training.phases]
    facts = [
        *(("noise multiplier (sigma)", each) for each in noise),
        ("sampling rate", f"{training.rate:.6g} ({training.batch:,} of {training.records:,} records)"),
    ]
    several = len({sigma for sigma, _ in training.phases}) > 1
    record = {
        "sigma": None if several else training.sigma,
        "phases": [list(phase) for phase in training.phases],
        "rate": training.rate,
        "steps": training.steps,
        "planned_steps": training.planned,
        "sampler": training.sampler,
    }
    return Answer(
        training.plan,
        training.guarantee,
        training.renyi,
        facts,
        record,
        f"Assumes {training.assumption}.",
        _notes(training),
    )


def _notes(training: PrivateTraining) -> list[str]:
    notes = ["Clip every record's gradient to norm C; the noise on the sum has standard deviation sigma times C."]
    if training.steps < training.planned:
        notes.append(
            f"Stopped after {training.steps:,} of {training.planned:,} steps: this holds if the step was fixed before, "
            "or chosen without the private data and without the model; or else the price of all steps stands."
        )
    caution = caution_of_delta(training.delta, training.records)
    return [*notes, *([f"Caution: {caution}."] if caution else [])]
