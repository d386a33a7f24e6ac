"""The console over plain HTTP: what is refused, what every response has, and what pages contain."""

from __future__ import annotations

import http.client
import json

import pytest

from ottla.console.app import ACTIONS, PAGES
from ottla.console.security import POLICY
from ottla.console.server import ConsoleServer
from tests.support.console import ControlledCluster, console_for, request, token_of

PATHS = ["/", "/topics", "/topics/orders/partitions", "/topics/orders/consumers",
         "/topics/orders/configuration?all=1", "/groups", "/groups/billing", "/groups/billing?to=start", "/cluster", "/pipelines"]  # fmt: skip
CREATE = {"name": "made-by-a-form", "partitions": "1"}


def topic_names(cluster: ControlledCluster) -> set[str]:
    response = cluster.local.metadata(None)
    assert response is not None
    return {topic.name or "" for topic in response.topics}


@pytest.mark.parametrize("path", PATHS)
def test_every_page_has_the_headers_and_no_inline_code(console: ConsoleServer, path: str) -> None:
    response = request(console, path)
    assert response.status == 200
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert "server" not in response.headers
    for forbidden in (" style=", "<style", "javascript:", " onclick=", "https://", "<script>"):
        assert forbidden not in response.text


def test_static_files_are_served_and_nothing_else(console: ConsoleServer) -> None:
    assert request(console, "/-/static/console.js").status == 200
    assert request(console, "/-/static/../app.py").status == 404
    assert request(console, "/-/static/%2e%2e/app.py").status == 404


def test_a_missing_page_or_topic_is_reported_as_a_page(console: ConsoleServer) -> None:
    assert request(console, "/nothing").status == 404
    response = request(console, "/topics/no%3Cscript%3E/partitions")
    assert response.status == 404
    assert "<script>alert" not in response.text
    assert "no&lt;script&gt;" in response.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
    ],
)
def test_other_pages_of_the_browser_are_refused(
    console: ConsoleServer, cluster: ControlledCluster, headers: dict[str, str], status: int
) -> None:
    assert request(console, "/", headers=headers).status == status
    assert request(console, "/-/stream?at=/", headers=headers).status == status
    sent = {**headers, "x-ottla-token": token_of(console)}
    assert request(console, "/topics", form=CREATE, headers=sent).status == status
    assert CREATE["name"] not in topic_names(cluster)


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_a_form_without_the_token_is_refused(
    console: ConsoleServer, cluster: ControlledCluster, token: str
) -> None:
    assert request(console, "/topics", form={**CREATE, "token": token}).status == 403
    assert CREATE["name"] not in topic_names(cluster)


def test_a_body_that_is_too_large_is_refused(console: ConsoleServer) -> None:
    assert request(console, "/topics", form={"name": "x" * 1_100_000}).status == 413


def test_read_only_refuses_every_action(read_only: ConsoleServer, cluster: ControlledCluster) -> None:
    token = token_of(read_only)
    paths = [action.path for action in ACTIONS]
    assert len(paths) > 5
    for path in paths:
        response = request(read_only, path, form={**CREATE, "token": token})
        assert (response.status, response.text) == (403, "This console is read-only.\n")
    assert CREATE["name"] not in topic_names(cluster)
    assert "data-action" not in request(read_only, "/cluster").text


def test_no_page_is_changed_by_reading(console: ConsoleServer) -> None:
    """GET does not execute an action: actions are only registered for POST."""
    for action in ACTIONS:
        path = action.path.replace("{node_id:int}", "0").replace("{action}", "kill")
        if path not in [page.path for page in PAGES]:
            assert request(console, path.replace("{topic}", "x").replace("{group}", "x")).status in (404, 405)


def test_a_topic_is_created_grown_configured_and_deleted(
    console: ConsoleServer, cluster: ControlledCluster
) -> None:
    headers = {"x-ottla-token": token_of(console)}

    def act(path: str, **form: str) -> str:
        response = request(console, path, form=form, headers=headers)
        assert response.status == 200, response.text
        return str(json.loads(response.text)["message"])

    assert act("/topics", name="fresh", partitions="2") == "Created topic fresh"
    assert "fresh" in request(console, "/topics").text
    assert act("/topics/fresh/grow", partitions="3") == "Topic fresh has 3 partitions now."
    assert (
        act("/topics/fresh/configure", key="retention.ms", value="1000") == "Topic fresh: retention.ms=1000"
    )
    assert "retention.ms" in request(console, "/topics/fresh/configuration").text
    act("/topics/fresh/configure", key="retention.ms", remove="1")
    response = request(
        console, "/topics/fresh/configure", form={"key": "no.such", "value": "1"}, headers=headers
    )
    assert response.status == 400
    assert "no.such" in response.text
    assert act("/topics/fresh/delete") == "Deleted topic fresh"
    assert request(console, "/topics/fresh/partitions").status == 404


def test_the_stream_sends_fragments_and_stops_the_poller(console: ConsoleServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", console.settings.port, timeout=60)
    connection.request("GET", "/-/stream?at=/topics%3Fq%3Dord")
    response = connection.getresponse()
    assert response.status == 200
    line = b""
    while not line.startswith(b"data: "):
        line = response.fp.readline()
    data = json.loads(line[6:])
    connection.close()
    assert data["target"] == "topics_table"
    assert "orders" in data["html"]
    assert "hostile" not in data["html"]


def test_a_stream_of_no_page_is_refused(console: ConsoleServer) -> None:
    assert request(console, "/-/stream?at=/nothing").status == 404
    assert request(console, "/-/stream").status == 404


def test_the_palette_finds_topics(console: ConsoleServer) -> None:
    assert "/topics/orders" in request(console, "/-/search?q=ord").text
    assert "&lt;b&gt;" not in request(console, "/-/search?q=%3Cb%3E").text


def test_without_a_cluster_pages_show_the_reason() -> None:
    from ottla.local.ports import free_port

    with console_for(f"127.0.0.1:{free_port()}") as server:
        response = request(server, "/")
        assert response.status == 200
        assert "does not respond" in response.text


def test_a_port_in_use_is_noticed_and_the_next_one_taken(console: ConsoleServer) -> None:
    second = ConsoleServer(console.settings)
    with second:
        assert second.settings.port != console.settings.port
        assert request(second, "/-/static/console.js").status == 200
