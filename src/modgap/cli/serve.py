"""``modgap serve``: the report's page on live data, with search and a workbench."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

from modgap.cli.data import Data, Images
from modgap.cli.options import AskingModality, Goal, Metric
from modgap.cli.takes_data import takes_data
from modgap.core.secrets import without_secrets


@takes_data()
def serve(
    data: Data,
    images: Images = None,
    queries: AskingModality = None,
    goal: Goal = "mixed",
    umap: bool = False,
    metric: Metric = "cosine",
    model: str | None = None,
    rows: int = 200_000,
    seed: int = 0,
    host: str = "127.0.0.1",
    port: int = 8321,
    token: str | None = None,
    monitor: bool = False,
    monitor_file: Path | None = None,
    browser: bool = False,
) -> None:
    """Explore embeddings live: search one index raw and corrected, fit and evaluate corrections.

    Example: modgap serve image.npy text.npy
    """
    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.progress import steps
    from modgap.cli.show import say
    from modgap.reports.rows import with_images
    from modgap.serve import server

    server.check_installed()
    server.check_exposed(host, token)
    with server.listen(host, port) as opened:
        from modgap.serve import Explorer, make_app
        from modgap.serve.connections import Server, run
        from modgap.serve.monitoring import make_monitor

        with steps() as step:
            step("reading the rows into the live index", 0, 1)
            explorer = Explorer(
                with_images(data, images), queries=queries, metric=metric, goal=goal, model=model,
                seed=seed, rows=rows,
            )  # fmt: skip
            watched = None
            if monitor or monitor_file is not None:
                watched = make_monitor(explorer, monitor_file, step)
        document = partial(explorer.document, umap=umap)
        app = make_app(
            explorer, document, token=token, hosts=server.names_for(host), monitor=watched
        )
        address = server.address_of(opened, host, token)
        yours = "your token for the …, " if token else ""  # what is printed may be kept in a log
        say(f"modgap serves at {without_secrets(address)} ({yours}Ctrl-C to stop)")
        if watched is not None:
            say("  drift of queries, for Prometheus: /metrics")
        if browser:
            import threading
            import webbrowser

            soon = threading.Timer(0.5, webbrowser.open, (address,))
            soon.daemon = True
            soon.start()
        with tidy_when_terminated(), ExitStack() as ending:  # SIGTERM, too, saves the monitor
            if watched is not None and monitor_file is not None:
                ending.enter_context(watched.kept_at(monitor_file))
            run(Server(app), opened)
    say("stopped.")
