"""Whatever is wrong about a command: one sentence on standard error, a proposal if one is near, and exit code 2."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import pytest
import typer

from localrank.__main__ import main
from localrank.commands.wrong_use import run_typer
from localrank.errors import ArtifactNotFound, InvalidConfiguration


class Form(StrEnum):
    text = "text"
    mapped = "mapped"


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    group = typer.Typer(name="group", no_args_is_help=True)
    app.add_typer(group)

    @app.command()
    def bake(
        context: typer.Context,
        cakes: Annotated[list[str], typer.Argument(metavar="CAKE")],
        *,
        minutes: Annotated[int, typer.Option("--minutes", "-m", min=5, max=90)] = 30,
        heat: float = 180.0,
        form: Form = Form.text,
        icing: bool = False,
    ) -> None:
        if minutes == 13:
            raise typer.BadParameter("expected luck")
        if minutes == 14:
            raise typer.BadParameter("expected luck", param_hint="--minutes")
        if minutes == 15:
            raise ArtifactNotFound("no such cake")
        if minutes == 16:
            raise typer.Exit(7)
        if minutes == 17:
            raise KeyboardInterrupt
        typer.echo(f"{cakes} {minutes} {heat:g} {form.value} {icing} {context.obj}")

    @app.command()
    def eat(cake: str) -> None:
        typer.echo(cake)

    group.command("whisk")(lambda: typer.echo("whisked"))
    group.command("knead")(lambda: typer.echo("kneaded"))
    return app


BAKE = " (see localrank bake --help)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("bake a --minuets 3", "no option '--minuets'; did you mean '--minutes'?" + BAKE),
        ("bake a --no-icin", "no option '--no-icin'; did you mean '--no-icing'?" + BAKE),
        ("bake a --qqqq", "no option '--qqqq'" + BAKE),
        ("bake", "expected argument CAKE, found none" + BAKE),
        ("eat", "expected argument CAKE, found none (see localrank eat --help)"),
        ("eat a b", "expected no further word, found 'b' (see localrank eat --help)"),
        ("eat a b c", "expected no further word, found 'b' (see localrank eat --help)"),
        ("bake a --minutes", "--minutes: expected a value, found none"),
        ("bake a --icing=3", "--icing: expected no value, found one"),
        ("bake a --minutes x", "--minutes: expected a whole number, found 'x'" + BAKE),
        ("bake a -m 5.5", "--minutes: expected a whole number, found '5.5'" + BAKE),
        ("bake a -m 4", "--minutes: expected at least 5, found '4'" + BAKE),
        ("bake a -m 91", "--minutes: expected at most 90, found '91'" + BAKE),
        ("bake a --heat hot", "--heat: expected a number, found 'hot'" + BAKE),
        (
            "bake a --form txet",
            "--form: expected one of text, mapped, found 'txet'; did you mean 'text'?" + BAKE,
        ),
        ("bake a -m 13", "expected luck" + BAKE),
        ("bake a -m 14", "--minutes: expected luck" + BAKE),
        (
            "group knaed",
            "no command 'knaed'; did you mean 'knead'? (expected: whisk, knead) (see localrank group --help)",
        ),
    ],
)
def test_wrong_use_is_one_sentence_that_names_what_was_expected(
    app: typer.Typer, words: str, expected: str
) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        run_typer(app, words.split())

    assert expected == str(refused.value)


def test_right_use_runs_the_command_and_passes_the_context_on(
    app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == run_typer(app, ["bake", "a", "b", "-m", "90", "--heat", "200", "--icing"], obj="from here")

    assert ("['a', 'b'] 90 200 text True from here\n", "") == capsys.readouterr()


def test_a_group_without_a_command_prints_its_help(
    app: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == run_typer(app, ["group"])

    printed = capsys.readouterr()
    assert "" == printed.out
    assert printed.err.startswith("Usage: localrank group")


@pytest.mark.parametrize(("words", "code"), [("bake --help", 0), ("bake a -m 16", 7), ("bake a -m 17", 130)])
def test_the_exit_code_of_a_command_is_returned(app: typer.Typer, words: str, code: int) -> None:
    assert code == run_typer(app, words.split())


def test_other_errors_pass_through(app: typer.Typer) -> None:
    with pytest.raises(ArtifactNotFound, match="no such cake"):
        run_typer(app, ["bake", "a", "-m", "15"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("trian x", "no command 'trian'; did you mean 'train'? (expected: demo, assess, train, extend, "),
        ("--vresion", "no option '--vresion'; did you mean '--version'?\n"),
        ("--hlep", "no option '--hlep'; did you mean '--help'?\n"),
        ("models promte x", "no command 'promte'; did you mean 'promote'? (expected: list, show, "),
        ("models imprt x", "no command 'imprt'; did you mean 'import'? (expected: list, show, "),
        (
            "models show x --jsn",
            "no option '--jsn'; did you mean '--json'? (see localrank models show --help)\n",
        ),
        (
            "models show x --jsn=3",
            "no option '--jsn'; did you mean '--json'? (see localrank models show --help)\n",
        ),
        ("models show x y", "expected no further word, found 'y' (see localrank models show --help)\n"),
        ("models show", "expected MODEL, found none (see localrank models show --help)\n"),
        ("models push", "expected URL, NAME, found none (see localrank models push --help)\n"),
        ("models prune x --keep", "--keep: expected one argument (see localrank models prune --help)\n"),
        ("models list --json=3", "--json: expected no value, found '3' (see localrank models list --help)\n"),
        (
            "models export x --to slor",
            "--to: expected one of elasticsearch, opensearch, solr, vespa, found 'slor'; did you mean 'solr'? (see ",
        ),
        ("models --jsn list", "no option '--jsn' (see localrank models --help)\n"),
        ("models --jsn", "expected COMMAND, found none (see localrank models --help)\n"),
        ("train --nmae x", "no option '--nmae'; did you mean '--name'? (see localrank train --help)\n"),
        ("data inpect x", "no command 'inpect'; did you mean 'inspect'? (expected: inspect, convert, "),
        ("experiments reprot x", "no command 'reprot'; did you mean 'report'? (expected: report) "),
        ("rank", "expected argument MODEL, found none (see localrank rank --help)\n"),
        ("train x --budget soon", "--budget: expected a number, found 'soon' (see localrank train --help)\n"),
        ("serve --prot 3", "no option '--prot'; did you mean '--port'? (see localrank serve --help)\n"),
    ],
)
def test_every_command_answers_wrong_use_on_one_line(
    words: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main(words.split())

    printed = capsys.readouterr()
    assert "" == printed.out
    assert printed.err.startswith(f"localrank: {expected}")
    assert 1 == printed.err.count("\n")
