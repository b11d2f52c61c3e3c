"""The command line: the same functions as the app. Bad input exits 2, message on stderr only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

import specmath
from specmath.checks import InputError
from specmath.cli import calculator, hardware, logs, logs_compare, server

__all__ = ["main"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExample: specmath predict --target-ms 40 --draft-ms 8 "
    "--gamma 4 --accepted-per-step 3",
)
@click.version_option(specmath.__version__, package_name="specmath")
def cli() -> None:
    """What speculative decoding will do to your latency and your bill."""


@cli.command("serve", epilog="\b\nExample: specmath serve --port 8600")
@click.option("--port", type=click.IntRange(1, 65535), default=8501, show_default=True)
@click.option("--headless", is_flag=True, help="Do not open a browser.")
def serve_command(port: int, headless: bool) -> None:
    """Open the app in a browser, on this machine only."""
    app = Path(specmath.__file__).resolve().parents[1] / "app.py"
    if not app.exists():
        raise InputError("the app is not installed here; run this from the project's folder")
    command = [sys.executable, "-m", "streamlit", "run", str(app), f"--server.port={port}"]
    if headless:
        command.append("--server.headless=true")
    raise SystemExit(subprocess.call(command, cwd=app.parent))


for command in (
    calculator.predict_command,
    calculator.gamma_command,
    calculator.crossover_command,
    calculator.sweep_command,
    calculator.export_command,
    logs.logs_group,
    logs_compare.review_command,
    hardware.steptime_command,
    hardware.batch_command,
    hardware.model_command,
    server.measure_group,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; every InputError becomes exit code 2 with its message on stderr."""
    try:
        cli.main(args=arguments, prog_name="specmath", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except InputError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.exit(0)
