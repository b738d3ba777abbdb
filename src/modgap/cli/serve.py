"""``modgap serve``: the report's page on live data, with search and a workbench."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap.cli.options import (
    Data,
    Goal,
    Images,
    MetricOption,
    Model,
    Seed,
    Umap,
    takes_data,
    with_images,
)

if TYPE_CHECKING:
    from modgap.evaluation import Goal as GoalName
    from modgap.serve import Explorer
    from modgap.serve.document import MakeDocument

_SERVER = "The server"


@takes_data()
def serve(
    data: Data,
    images: Images = None,
    goal: Goal = "mixed",
    umap: Umap = True,
    metric: MetricOption = None,
    model: Model = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Search at most this many rows of each modality.")
    ] = 200_000,
    seed: Seed = 0,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Any but this machine's own needs a token.",
            rich_help_panel=_SERVER,
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="Port to listen on; 0 for any that is free.",
            rich_help_panel=_SERVER,
        ),
    ] = 8321,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="MODGAP_TOKEN",
            help="What every request must know; in the variable no list of processes shows it.",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    browser: Annotated[
        bool,
        typer.Option("--open/--no-browser", help="Open the page.", rich_help_panel=_SERVER),
    ] = False,
) -> None:
    """Explore embeddings live: search one index raw and corrected, fit and judge corrections.

    Example: modgap serve image.npy text.npy
    """
    from modgap.cli.show import say, steps
    from modgap.serve import server

    server.check_installed()
    server.check_exposed(host, token)
    opened = server.listen(host, port)
    with opened:
        from modgap.serve import Explorer
        from modgap.serve.app import make_app
        from modgap.serve.assets import live_assets
        from modgap.serve.guard import LOOPBACK_NAMES

        data = with_images(data, images)
        with steps() as step:
            step("reading the rows into the live index", 0, 1)
            explorer = Explorer(
                data,
                metric=metric or "cosine",
                goal=goal,
                model=model,
                seed=seed,
                rows=rows,
            )
        app = make_app(
            explorer,
            _document(explorer, goal, None if umap else False),
            assets=live_assets(),
            token=token,
            hosts=LOOPBACK_NAMES if server.is_loopback(host) else None,
        )
        address = server.address_of(opened, host, token)
        say(f"modgap serves at {address} (Ctrl-C to stop)")
        if browser:
            _open_soon(address)
        server.run(app, opened)
    say("stopped.")


def _document(explorer: Explorer, goal: GoalName, umap: bool | None) -> MakeDocument:
    """How the page's document is made; the correction it recommends can be searched with."""

    def make(progress: Any) -> dict[str, Any]:
        from modgap.reports import contents

        document, diagnosis = contents(
            explorer.data, goal=goal, metric=explorer.metric, model=explorer.model,
            umap=umap, seed=explorer.seed, progress=progress,
        )  # fmt: skip
        if diagnosis is not None:
            explorer.recommend(diagnosis)
        return document

    return make


def _open_soon(address: str) -> None:
    import threading
    import webbrowser

    soon = threading.Timer(0.5, webbrowser.open, (address,))
    soon.daemon = True
    soon.start()
