"""`tfdist launch`: starts `tfdist train` on every host of an engine."""

from __future__ import annotations

from typing import Any

import click

from tfdist.cli import common_options as shared
from tfdist.cli.launch.engine_call import EngineCall
from tfdist.cli.launch.engine_options import ENGINE_OPTIONS, REFUSED_OF_TRAIN, check_options
from tfdist.cli.launch.engines import ENGINES, call_engine
from tfdist.cli.launch.train_arguments import given_options, train_arguments, train_options
from tfdist.cli.train_target import name_target


class LaunchVerb(shared.TargetVerb):
    """Has the engines' options, each under the engines that have it, and those of `train`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params += [*(each.option for each in ENGINE_OPTIONS if each.engines & ENGINES.keys()), *train_options()]

    def own_sections(self) -> dict[str, list[click.Option]]:
        found: dict[str, list[click.Option]] = {}
        for each in ENGINE_OPTIONS:
            *others, last = [engine for engine in ENGINES if engine in each.engines] or [""]
            engines = f"{', '.join(others)} or {last}" if others else last
            if engines:
                found.setdefault(f"With --on {engines}", []).append(each.option)
        return found

    def help_record(self, ctx: click.Context, option: click.Option) -> tuple[str, str] | None:
        record = super().help_record(ctx, option)
        is_of_train = option.name in {each.name for each in train_options()}
        return record and (record[0], record[1] + (_where_refused(str(option.name)) if is_of_train else ""))


def _where_refused(name: str) -> str:
    """For the help of an option of `train`: the engines that do not take it, and nothing where all do."""
    engines = [engine for engine, refused in REFUSED_OF_TRAIN.items() if name in refused and engine in ENGINES]
    return f"  Not with --on {', '.join(engines)}." if engines else ""


_ON = "; ".join(f"{name}: {what}" for name, (_, what) in ENGINES.items())


@click.command(cls=LaunchVerb, options_metavar="[OPTIONS]")
@shared.target("Train")
@shared.choice("--on", list(ENGINES), "ssh", f"What starts the hosts. {_ON}.")
@click.pass_context
def launch(ctx: click.Context, /, arguments: tuple[str, ...], module: str | None, on: str, **options: Any) -> None:
    """Starts `tfdist train` on many hosts, by one command, and ends all of it together.

    TARGET is a YAML config (default ./tfdist.yaml), a Python script, or -m MODULE, as the hosts see it. After a config
    options may follow; after a script or a module everything is its own. What is no option of an engine is one of
    `tfdist train`, and goes to every host.
    """
    if options["log_format"] == "json":
        from tfdist.launch.logs.log_records import LogRecords
        from tfdist.launch.logs.record_streams import recorded_streams

        ctx.with_resource(recorded_streams(LogRecords()))
    given = given_options(ctx)
    check_options(on, given)
    of_train = {str(option.name) for option in train_options()}
    call = EngineCall(
        target=name_target(module, arguments),
        options={name: value for name, value in options.items() if name not in of_train},
        train={name: value for name, value in options.items() if name in of_train},
        train_arguments=train_arguments(ctx),
        given=given,
        verbose=options["verbose"],
    )
    ctx.exit(call_engine(on, call))
