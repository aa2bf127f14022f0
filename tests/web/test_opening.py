"""The pages open in a real browser, and stay within their policy."""

import pytest
from playwright.async_api import expect

from tests.app.real_server import Served
from tests.web.conftest import DESK, PHONE, Visits

pytestmark = pytest.mark.long


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
async def test_a_browser_at_the_root_is_led_to_a_page_without_faults(
    served: Served, visit: Visits, viewport: dict[str, int]
) -> None:
    async with visit(f"{served.url}/", viewport=viewport) as page:
        await page.wait_for_load_state("networkidle")
        assert page.url.startswith(f"{served.url}/ui/")
        await expect(page.get_by_role("heading").first).to_be_visible()
        # Nothing is cut off at the side.
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def test_the_watchman_tells_of_what_a_page_may_not_do(served: Served, visit: Visits) -> None:
    said = ""
    try:
        async with visit(f"{served.url}/ui/") as page:
            # The policy forbids it, and the console says so.
            async with page.expect_console_message(lambda one: "Content Security Policy" in one.text):
                await page.evaluate("fetch('http://127.0.0.1:1/elsewhere').catch(() => null)")
            async with page.context.expect_event("weberror"):
                await page.evaluate("setTimeout(() => { throw new Error('planted') })")
    except AssertionError as fault:
        said = str(fault)
    assert "Content Security Policy" in said
    assert "planted" in said
