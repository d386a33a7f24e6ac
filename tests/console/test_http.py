"""The console over plain HTTP: what is refused, what every response has, and what pages contain."""

from __future__ import annotations

import csv
import http.client
import io
import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
import typer
from confluent_kafka import Producer

from ottla.cli.commands import CommandTable
from ottla.console.web.app import ACTIONS, PAGES
from ottla.console.web.security import POLICY
from ottla.console.web.server import ConsoleServer
from tests.support.console import ShownCluster, console_for, request, token_of

PATHS = ["/", "/topics", "/topics/orders", "/topics/orders?tail=1", "/topics/orders?where=value.id%20%3C%203",
         "/topics/orders/records/0/0?as=hex", "/topics/orders/partitions", "/topics/orders/consumers",
         "/topics/orders/configuration?all=1", "/groups", "/groups/billing",
         "/groups/billing?to=start", "/cluster", "/pipelines", "/scoreboard",
         "/transactions?hanging=1", "/transactions?topic=orders"]  # fmt: skip
CREATE = {"name": "made-by-a-form", "partitions": "1"}


def topic_names(cluster: ShownCluster) -> set[str]:
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


@pytest.mark.parametrize(
    "path",
    [*PATHS, "/groups/billing?to=start&topic=orders&partition=0", "/groups/billing?to=shift%20-1&partition=0",
     "/topics/orders?partition=1&key=a*&range=-5:end", "/topics/orders/configuration"],
)  # fmt: skip
def test_every_command_of_a_page_is_accepted_by_the_command_line(console: ConsoleServer, path: str) -> None:
    text = request(console, path).text
    shown = {unescape(each) for each in re.findall(r'data-(?:command|copy)="([^"]*)"', text)}
    for command in shown:
        for part in command.split(" | "):
            parse_command(part)


def test_the_command_of_a_reset_names_topic_and_partition(console: ConsoleServer) -> None:
    text = unescape(request(console, "/groups/billing?to=999999&topic=orders&partition=0").text)
    assert "ottla groups reset billing --to 999999 -t orders -p 0" in text
    assert "not 999,999" in text, "an offset outside the log is shown"


def parse_command(line: str) -> None:
    """Parse a command line without running it; raises if it is not accepted."""
    name, *words = shlex.split(line)
    assert name == "ottla"
    command: Any = CommandTable(name="ottla")
    context = typer.Context(command, info_name="ottla")
    while hasattr(command, "get_command"):
        command = command.get_command(context, words.pop(0))
        assert command is not None, line
    command.make_context(command.name, words, parent=context)


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
    console: ConsoleServer, cluster: ShownCluster, headers: dict[str, str], status: int
) -> None:
    assert request(console, "/", headers=headers).status == status
    assert request(console, "/-/stream?at=/", headers=headers).status == status
    sent = {**headers, "x-ottla-token": token_of(console)}
    assert request(console, "/topics", form=CREATE, headers=sent).status == status
    assert CREATE["name"] not in topic_names(cluster)


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_a_form_without_the_token_is_refused(
    console: ConsoleServer, cluster: ShownCluster, token: str
) -> None:
    assert request(console, "/topics", form={**CREATE, "token": token}).status == 403
    assert CREATE["name"] not in topic_names(cluster)


def test_a_body_that_is_too_large_is_refused(console: ConsoleServer) -> None:
    assert request(console, "/topics", form={"name": "x" * 1_100_000}).status == 413


def test_read_only_refuses_every_action(read_only: ConsoleServer, cluster: ShownCluster) -> None:
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
            assert request(console, path.replace("{topic}", "x").replace("{group:path}", "x")).status in (
                404,
                405,
            )


def test_a_topic_is_created_grown_configured_and_deleted(
    console: ConsoleServer, cluster: ShownCluster
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


# --- records


def events(server: ConsoleServer, at: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The events of the stream of a page; ends with the stream."""
    connection = http.client.HTTPConnection("127.0.0.1", server.settings.port, timeout=60)
    connection.request("GET", f"/-/stream?at={quote(at, safe='')}")
    response = connection.getresponse()
    assert response.status == 200
    kind = ""
    try:
        while line := response.fp.readline():
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield kind, json.loads(line[6:])
                if kind == "end":
                    return
    finally:
        connection.close()


def test_the_page_of_a_topic_has_its_newest_records_and_links_to_older_ones(console: ConsoleServer) -> None:
    first = request(console, "/topics/orders").text
    assert first.count("<tr data-row") == 50
    found = re.search(r'href="\?(cursor=[^"]+)"', first)
    assert found is not None
    second = request(console, f"/topics/orders?{found[1]}").text
    rows = [set(re.findall(r'id="r-([0-9-]+)"', text)) for text in (first, second)]
    assert len(rows[1]) == 50
    assert not rows[0] & rows[1]


def test_a_search_reads_the_whole_topic_and_reports_its_progress(console: ConsoleServer) -> None:
    received = list(events(console, '/topics/orders?where=value.status = "paid" and value.id < 20'))
    rows = "".join(data["html"] for kind, data in received if kind == "append")
    assert rows.count("<tr") == 10
    last = [data["html"] for _, data in received if data["target"] == "search_progress"][-1]
    assert "10 records found" in last
    assert "complete" in last
    assert received[-1][0] == "end"


def test_a_search_pauses_and_can_be_continued(
    console: ConsoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.console.pages.records.PAGE_RECORDS", 10)
    monkeypatch.setattr("ottla.console.pages.records.FOUND_MAX", 30)
    found: list[str] = []
    at = "/topics/orders?key=customer-*"
    for _ in range(10):
        received = list(events(console, at))
        found += re.findall(r'id="r-([0-9-]+)"', "".join(data["html"] for _, data in received))
        last = [data["html"] for _, data in received if data["target"] == "search_progress"][-1]
        link = re.search(r'href="(\?[^"]+)"', last)
        if link is None:
            break
        at = "/topics/orders" + unescape(link[1])
    assert "complete" in last
    assert len(found) == len(set(found)) == 120


def test_an_expression_or_position_that_is_not_valid_is_explained(console: ConsoleServer) -> None:
    for query in ("where=value.", "range=soon", "partition=x", "partition=99", "key=%5B", "cursor=1"):
        response = request(console, f"/topics/orders?{query}")
        assert response.status == 200
        assert 'role="alert"' in response.text, query


def test_live_records_are_sent(console: ConsoleServer, cluster: ShownCluster) -> None:
    stream = events(console, "/topics/tailed?tail=1&key=live-*")
    next(stream)
    producer = Producer({"bootstrap.servers": cluster.local.bootstrap, "log_level": 0})
    producer.produce("tailed", "other", "other")
    producer.produce("tailed", "<b>new</b>", "live-1")
    producer.flush(60)
    kind, data = next(event for event in stream if event[1]["target"] == "records")
    stream.close()
    assert kind == "prepend"
    assert "live-1" in data["html"]
    assert "&lt;b&gt;new" in data["html"]
    assert "other" not in data["html"]


def test_a_record_has_a_permanent_link(console: ConsoleServer) -> None:
    page = request(console, "/topics/orders?order=oldest").text
    found = re.search(r'href="(/topics/orders/records/\d+/\d+)"', page)
    assert found is not None
    text = request(console, found[1]).text
    assert "customer-" in text
    assert "trace" in text
    assert request(console, "/topics/orders/records/0/999999").status == 404
    assert request(console, "/topics/orders/records/77/0").status == 404
    assert request(console, "/topics/orders/records/0/-1").status == 404


def test_records_are_downloaded_as_json_lines_and_csv(console: ConsoleServer) -> None:
    lines = request(console, "/topics/orders/files/download?format=jsonl&where=value.id<5")
    assert "attachment" in lines.headers["content-disposition"]
    objects = [json.loads(line) for line in lines.text.splitlines()]
    assert sorted(json.loads(each["value"])["id"] for each in objects) == [0, 1, 2, 3, 4]
    rows = list(
        csv.DictReader(io.StringIO(request(console, "/topics/orders/files/download?format=csv").text))
    )
    assert len(rows) >= 120
    assert rows[0]["topic"] == "orders"


def test_a_record_is_produced_and_produced_again(console: ConsoleServer) -> None:
    headers = {"x-ottla-token": token_of(console)}
    form = {"key": "again", "value": "é 1", "headers": "a=b\nc=d=e"}
    made = request(console, "/topics/empty/produce", form=form, headers=headers)
    assert made.status == 200, made.text
    found = re.search(r"empty-(\d+), offset (\d+)", made.text)
    assert found is not None
    path = f"/topics/empty/records/{found[1]}/{found[2]}"
    assert "é 1" in request(console, path).text
    again = request(console, f"{path}/resend", form={"to": "empty"}, headers=headers)
    assert "Produced again to empty-0, offset" in again.text
    tombstone = request(console, "/topics/empty/produce", form={"key": "x", "null": "1"}, headers=headers)
    assert tombstone.status == 200
    wrong = request(console, "/topics/empty/produce", form={"headers": "x"}, headers=headers)
    assert wrong.status == 400


def test_the_timeline_links_to_records_by_time(console: ConsoleServer) -> None:
    text = request(console, "/topics/orders/fragments/timeline").text
    assert "<svg" in text
    links = [unescape(each) for each in re.findall(r'href="([^"]+)"', text)]
    assert links
    rows = sum(request(console, each).text.count("<tr data-row") for each in links if "range" in each)
    assert rows >= 50


def test_an_open_transaction_is_shown_and_aborted(console: ConsoleServer, cluster: ShownCluster) -> None:
    settings = {
        "bootstrap.servers": cluster.local.bootstrap,
        "transactional.id": "<b>copier</b>",
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("empty", "uncommitted", "x")
    producer.flush(60)
    page = request(console, "/transactions?topic=empty").text
    assert "&lt;b&gt;copier&lt;/b&gt;" in page
    assert "Ongoing" in page
    assert "empty-0" in page
    headers = {"x-ottla-token": token_of(console)}
    done = request(console, "/transactions/abort", form={"id": "<b>copier</b>"}, headers=headers)
    assert done.status == 200, done.text
    assert "Ongoing" not in request(console, "/transactions").text
    again = request(console, "/transactions/abort", form={"id": "<b>copier</b>"}, headers=headers)
    assert again.status == 400
