"""The console in Chromium: both themes and widths, contrast, keys, live updates, and a failover by a button.

Screenshots are written to a temporary folder, or to the folder of OTTLA_SCREENSHOTS. All tests are in this module
because Playwright's event loop must not stay in the process while other tests run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from ottla.console.web.server import ConsoleServer
from tests.support.console import CHROMIUM_ARGUMENTS, CONTRAST, ControlledCluster, ShownCluster, find_chromium
from tests.support.waiting import wait_until

TIMEOUT_MS = 60_000
WIDE, NARROW = 1280, 390
SCREENS = {
    "overview": "/",
    "topics": "/topics",
    "records": "/topics/orders",
    "search": "/topics/orders?where=value.id%20%3C%2010",
    "record": "/topics/orders/records/0/0",
    "hexadecimal": "/topics/orders/records/0/0?as=hex",
    "hostile": "/topics/hostile",
    "partitions": "/topics/orders/partitions",
    "configuration": "/topics/orders/configuration?all=1",
    "groups": "/groups",
    "group": "/groups/billing?to=start",
    "transactions": "/transactions?topic=orders",
    "cluster": "/cluster",
    "pipelines": "/pipelines",
    "scoreboard": "/scoreboard",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium found: `make browser` installs Debian's, or set OTTLA_CHROMIUM")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_ARGUMENTS))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("OTTLA_SCREENSHOTS")
    made = Path(kept) if kept else tmp_path_factory.mktemp("screenshots")
    made.mkdir(parents=True, exist_ok=True)
    return made


class Tab:
    """A page of the browser that records what a user would not see: errors and refused content."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self._url = page, url
        self.errors: list[str] = []
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)

    def go(self, path: str, *, live: bool = True) -> None:
        self.page.goto(self._url.rstrip("/") + path)
        if live:
            self.wait_live()

    def wait_live(self) -> None:
        """Wait until the script of the page runs and its stream is open."""
        expect(self.page.locator("#live")).to_have_attribute("data-state", "on")

    def find(self, selector: str, has_text: str | None = None) -> Locator:
        return self.page.locator(selector, has_text=has_text)


@pytest.fixture
def tab(browser: Browser, console: ConsoleServer) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": WIDE, "height": 900}, color_scheme="light")
    made = Tab(context.new_page(), console.url)
    yield made
    context.close()
    assert made.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_page_in_both_themes_and_widths(
    browser: Browser, console: ConsoleServer, folder: Path, theme: str, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    tab = Tab(context.new_page(), console.url)
    for name, path in SCREENS.items():
        tab.go(path, live=False)
        expect(tab.find("h1")).to_be_visible()
        result = tab.page.evaluate(CONTRAST)
        assert result["checked"] > 10
        assert result["found"] == [], f"{name}, {theme}"
        overflow = tab.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{name} is wider than a screen of {width} pixels"
        tab.page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)
    assert tab.errors == []
    context.close()


def test_the_theme_is_changed_and_kept(tab: Tab) -> None:
    tab.go("/")
    tab.find("[data-theme-toggle]").click()
    tab.page.keyboard.press("t")
    expect(tab.find("html")).to_have_attribute("data-theme", "dark")
    tab.go("/topics")
    expect(tab.find("html")).to_have_attribute("data-theme", "dark")
    colour = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(17, 19, 22)"


def test_the_keyboard_reaches_everything(tab: Tab) -> None:
    tab.go("/")
    tab.page.keyboard.press("/")
    expect(tab.find("#palette")).to_be_visible()
    tab.page.keyboard.type("ord")
    expect(tab.find("#palette-results a").first).to_contain_text("orders")
    tab.page.keyboard.press("Escape")
    expect(tab.find("#palette")).to_be_hidden()
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("t")
    expect(tab.find("h1")).to_have_text("Topics")
    tab.wait_live()
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("j")
    expect(tab.find("tr.is-selected")).to_have_count(1)
    expect(tab.find("tr.is-selected a").first).to_be_focused()
    tab.page.keyboard.press("?")
    expect(tab.find("#help")).to_be_visible()
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("Tab")
    outline = tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is visible"


def test_the_palette_opens_what_is_chosen(tab: Tab) -> None:
    tab.go("/")
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("cluster")
    expect(tab.find("#palette-results a[aria-selected=true]")).to_contain_text("Cluster")
    tab.page.keyboard.press("Enter")
    expect(tab.find("h1")).to_have_text("Cluster")


def test_a_hidden_page_closes_its_stream(tab: Tab) -> None:
    tab.go("/cluster")
    tab.page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(tab.find("#live")).to_have_attribute("data-state", "off")
    tab.page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: false, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(tab.find("#live")).to_have_attribute("data-state", "on")


def test_a_topic_is_created_by_the_form_and_appears(tab: Tab) -> None:
    tab.go("/topics")
    tab.find("summary").click()
    tab.find("input[name=name]").fill("typed-in")
    tab.page.get_by_role("button", name="Create").click()
    expect(tab.find("#toasts")).to_contain_text("Created topic typed-in")
    expect(tab.find("#topics_table")).to_contain_text("typed-in")


def test_hostile_records_are_shown_as_text(tab: Tab) -> None:
    tab.page.on("dialog", lambda dialog: tab.errors.append(f"a dialog: {dialog.message}"))
    for form in ("auto", "json", "text", "hex"):
        tab.go(f"/topics/hostile?as={form}&where=offset%20%3E%3D%200", live=False)
        expect(tab.find("#search_progress")).to_contain_text("complete")
        expect(tab.find("#records tr")).to_have_count(8)
        tab.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        assert tab.page.evaluate("window.pwned") is None
        assert (
            tab.page.evaluate("document.querySelectorAll('main script, main img, main b, main i').length")
            == 0
        )
        text = tab.page.evaluate("document.querySelector('main').textContent")
        assert "\u202e" not in text
        assert len(text) < 400_000, "long values are cut"
    tab.go("/topics/hostile?where=offset%20%3E%3D%200", live=False)
    expect(tab.find("#records")).to_contain_text("<script>window.pwned = 1</script>")
    expect(tab.find("#records")).to_contain_text("\\u202e")
    expect(tab.find("#records")).to_contain_text("{{ 7 * 7 }}")
    for offset in range(8):
        tab.go(f"/topics/hostile/records/0/{offset}", live=False)
        assert tab.page.evaluate("window.pwned") is None


def test_new_records_appear_in_the_live_view_and_link_to_their_page(tab: Tab, cluster: ShownCluster) -> None:
    tab.go("/topics/empty?tail=1")
    expect(tab.find("#search_progress")).to_contain_text("0 new records")
    producer = Producer({"bootstrap.servers": cluster.local.bootstrap, "log_level": 0})
    producer.produce("empty", '{"seen": true}', "tail-key")
    producer.flush(60)
    row = tab.find("#records tr", has_text="tail-key")
    expect(row).to_be_visible()
    row.get_by_role("link").click()
    expect(tab.find("h1")).to_contain_text("empty-0")
    expect(tab.find("pre.value").last).to_contain_text('"seen": true')


def test_a_group_is_reset_after_a_preview(tab: Tab) -> None:
    tab.go("/groups/billing")
    tab.find("input[name=to]").first.fill("end")
    tab.page.get_by_role("button", name="Preview").click()
    expect(tab.find(".plan")).to_contain_text("orders-0")
    expect(tab.find("#reset")).to_contain_text("ottla groups reset billing --to end")
    tab.wait_live()
    tab.page.get_by_role("button", name="Reset", exact=True).click()
    expect(tab.find("#confirm-command")).to_have_text("ottla groups reset billing --to end")
    tab.find("#confirm button[value=yes]").click()
    expect(tab.find("#toasts")).to_contain_text("offsets are set")
    expect(tab.find("#group_body")).to_contain_text("0 s")


def test_the_scoreboard_shows_what_each_group_has_committed(tab: Tab) -> None:
    tab.go("/scoreboard")
    expect(tab.find(".is-mobile .match")).to_have_count(1)
    expect(tab.find(".is-computer tbody tr")).to_have_count(2)
    expect(tab.find('[data-score="Canada vs USA"]')).to_have_text("40\u201339")


def test_a_failed_flow_is_shown_with_its_reason(tab: Tab) -> None:
    tab.go("/pipelines")
    expect(tab.find("#pipelines_body")).to_contain_text("<b>No space left</b>")
    expect(tab.find("svg.graph a")).to_have_count(3)


class Load:
    """A producer with acks=all that continues until `stop`; counts what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self.errors: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0, "linger.ms": 5}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.02):
            number += 1
            self._producer.produce("orders", f"{number}", f"{number}", on_delivery=self._on_delivery)
            self._producer.poll(0)
        self._producer.flush(60)

    def _on_delivery(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(str(error))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def test_a_broker_is_killed_by_its_button_and_the_records_continue(
    tab: Tab, controlled: ControlledCluster, folder: Path
) -> None:
    tab.go("/cluster")
    row = tab.find('tr[data-partition="orders-0"]')
    leader = int(row.get_attribute("data-leader") or "-1")
    load = Load(controlled.local.bootstrap)
    try:
        wait_until(lambda: load.acknowledged > 0, "the first acknowledged record", 60)
        tab.find(f"#broker-{leader}").get_by_role("button", name="Kill").click()
        expect(tab.find("#toasts")).to_contain_text(f"ottla cluster kill {leader}")
        expect(tab.find(f"#broker-{leader}")).to_have_attribute("data-state", "killed")
        expect(row).not_to_have_attribute("data-leader", str(leader))
        expect(tab.find("#cluster_changes")).to_contain_text(f"orders-0: leader {leader} →")
        before = load.acknowledged
        wait_until(lambda: load.acknowledged > before + 20, "records after the failover", 60)
        tab.page.screenshot(path=folder / "failover.png", full_page=True)
        tab.find(f"#broker-{leader}").get_by_role("button", name="Start").click()
        expect(tab.find(f"#broker-{leader}")).to_have_attribute("data-state", "running")
        expect(row).to_contain_text("3/3")
    finally:
        load.stop()
    assert load.errors == []
