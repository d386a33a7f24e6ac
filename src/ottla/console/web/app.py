"""The ASGI application of the console: routes of pages, streams, actions and static files, behind the `Gate`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Match, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ottla.admin.session import Session
from ottla.base.errors import LocalError, OttlaError
from ottla.console.broker_control import BrokerControl, can_control
from ottla.console.data.collector import SESSION_TIMEOUT_S, Collector
from ottla.console.data.poller import Poller
from ottla.console.page import Action, Console, Context, Download, NotFound, Page, View
from ottla.console.pages import (
    cluster,
    groups,
    overview,
    pipelines,
    record,
    records,
    scoreboard,
    topic,
    topics,
    transactions,
)
from ottla.console.presentation.navigation import NAVIGATION, results
from ottla.console.presentation.rendering import make_environment, render
from ottla.console.settings import ConsoleSettings
from ottla.console.web.security import TOKEN_FIELD, TOKEN_HEADER, Gate, make_token, token_matches
from ottla.console.web.stream import live_events, own_events

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    topics.PAGE,
    records.PAGE,
    records.TIMELINE,
    record.PAGE,
    topic.PAGE,
    groups.GROUPS,
    groups.GROUP,
    transactions.PAGE,
    cluster.PAGE,
    pipelines.PAGE,
    scoreboard.PAGE,
)
DOWNLOADS: tuple[Download, ...] = (record.DOWNLOAD,)
ACTIONS: tuple[Action, ...] = (
    cluster.BROKER_ACTION,
    topics.CREATE,
    record.PRODUCE,
    record.RESEND,
    topic.GROW,
    topic.CONFIGURE,
    topic.DELETE,
    groups.RESET,
    groups.DELETE,
    transactions.ABORT,
)
FIELDS_MAX = 200
THEMES = ("auto", "light", "dark")
STREAM = "/-/stream"


def make_app(settings: ConsoleSettings, control: BrokerControl | None = None) -> Gate:
    """The application. It connects to the cluster when the first page is requested."""
    session = Session(settings.bootstrap, settings.options)
    console = Console(
        settings,
        session,
        control,
        make_environment(),
        make_token(),
        settings.pipelines,
        scoreboard.BoardReader(session),
    )
    polled = Session(settings.bootstrap, settings.options, timeout_s=SESSION_TIMEOUT_S)
    poller = Poller(Collector(polled, control).take)
    handlers = Handlers(console, poller)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        console.session.close()
        polled.close()

    app = Starlette(
        routes=[
            *(Route(page.path, handlers.page_of(page), methods=["GET"]) for page in PAGES),
            *(Route(action.path, handlers.action_of(action), methods=["POST"]) for action in ACTIONS),
            *(Route(each.path, handlers.download_of(each), methods=["GET"]) for each in DOWNLOADS),
            Route(STREAM, handlers.stream, methods=["GET"]),
            Route("/-/search", handlers.search, methods=["GET"]),
            Mount("/-/static", StaticFiles(packages=[("ottla.console", "static")])),
        ],
        exception_handlers={404: handlers.not_found},
        lifespan=lifespan,
    )
    return Gate(app, settings)


class Handlers:
    """The endpoints. Contexts are computed and templates rendered in worker threads: they block."""

    def __init__(self, console: Console, poller: Poller) -> None:
        self._console, self._poller = console, poller

    def page_of(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            snapshot = await self._poller.current()
            query = dict(request.query_params)
            view = View(request.url.path, request.path_params, query, snapshot, theme_of(request))
            return await asyncio.to_thread(self._render_page, page, view)

        return show

    def download_of(self, download: Download) -> Callable[[Request], Awaitable[Response]]:
        async def send(request: Request) -> Response:
            query = dict(request.query_params)
            view = View(request.url.path, request.path_params, query, await self._poller.current())
            try:
                name, media, content = await asyncio.to_thread(download.run, self._console, view)
            except OttlaError as error:
                return self._problem(view, str(error), 400)
            disposition = f"attachment; filename*=utf-8''{quote(name, safe='')}"
            return StreamingResponse(
                iterate_in_threadpool(content), media_type=media, headers={"content-disposition": disposition}
            )

        return send

    def action_of(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def run(request: Request) -> Response:
            try:
                body = (await request.body()).decode()
                fields = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=FIELDS_MAX))
            except ValueError as error:
                return self._refused(f"The form cannot be read: {error}", 400)
            given = request.headers.get(TOKEN_HEADER) or fields.pop(TOKEN_FIELD, "")
            if not token_matches(given, self._console.token):
                return self._refused("The form is not of this console, or the console was restarted.", 403)
            view = View(request.url.path, request.path_params, fields, await self._poller.current())
            try:
                message = await asyncio.to_thread(action.run, self._console, view)
            except OttlaError as error:
                return self._refused(str(error), 400)
            await self._poller.poke()
            return JSONResponse({"message": message, "go": fields.get("go", "")})

        return run

    async def stream(self, request: Request) -> Response:
        """The stream of the page whose path and query the parameter `at` contains."""
        parts = urlsplit(request.query_params.get("at", ""))
        found = find_page(parts.path)
        if found is None:
            return self._refused("No such page.", 404)
        page, params = found
        resume = request.headers.get("last-event-id") or request.query_params.get("resume", "")
        fields = {**dict(parse_qsl(parts.query)), "resume": resume}
        view = View(parts.path, params, fields, await self._poller.current())
        own = None
        if page.stream is not None:
            try:
                own = await asyncio.to_thread(page.stream, self._console, view)
            except OttlaError as error:
                return self._refused(str(error), 502)
        events = live_events(self._console, self._poller, page, view) if own is None else own_events(own)
        return StreamingResponse(events, media_type="text/event-stream")

    async def search(self, request: Request) -> Response:
        """The results of the palette."""
        found = results(request.query_params.get("q", ""), await self._poller.current())
        return HTMLResponse(render(self._console.environment, "fragments/palette.html", {"results": found}))

    async def not_found(self, request: Request, _: Exception) -> Response:
        view = View(request.url.path, {}, {}, self._poller.snapshot, theme_of(request))
        return self._problem(view, "There is no such page.", 404)

    def _render_page(self, page: Page, view: View) -> Response:
        try:
            context = page.context(self._console, view)
        except NotFound as error:
            return self._problem(view, str(error), 404)
        except LocalError as error:
            return self._problem(view, str(error), 400)
        except OttlaError as error:
            return self._problem(
                view, f"The cluster has refused the request or did not respond: {error}", 502
            )
        return HTMLResponse(self._render(page.template, page.section, view, context))

    def _problem(self, view: View, text: str, status: int) -> Response:
        return HTMLResponse(self._render("problem.html", "", view, {"text": text}), status)

    def _refused(self, text: str, status: int) -> Response:
        return JSONResponse({"error": text}, status)

    def _render(self, template: str, section: str, view: View, context: Context) -> str:
        return render(
            self._console.environment, template, base_context(self._console, view, section) | context
        )


def base_context(console: Console, view: View, section: str) -> Context:
    """What the layout of every page needs."""
    return {
        "view": view,
        "snapshot": view.snapshot,
        "section": section,
        "navigation": NAVIGATION,
        "settings": console.settings,
        "read_only": console.settings.read_only,
        "token": console.token,
        "controlled": can_control(console.control),
    }


def theme_of(request: Request) -> str:
    wanted = request.cookies.get("ottla_theme", "auto")
    return wanted if wanted in THEMES else "auto"


def find_page(path: str) -> tuple[Page, Mapping[str, str]] | None:
    """The page with this path, and the parameters in the path."""
    for page in PAGES:
        scope: Scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "path_params": {}}
        match, found = Route(page.path, _unused, methods=["GET"]).matches(scope)
        if match is Match.FULL:
            return page, found.get("path_params", {})
    return None


async def _unused(_: Request) -> Response:
    """An endpoint for routes that only parse paths."""
    return Response()
