"""Does anything get through that a browser could run?"""

import base64
import io
import json

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlib.grading.safe_outputs import sanitise

SVG = '<svg xmlns="http://www.w3.org/2000/svg"><rect id="a"/>{}</svg>'
BOMB = "".join(f'<g id="g{i}">' + f'<use href="#g{i - 1}"/>' * 10 + "</g>" for i in range(1, 9))
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def bitmap(kind: str, size=(30, 20)) -> str:
    from PIL import Image

    raw = io.BytesIO()
    Image.new("RGB", size).save(raw, kind)
    return base64.b64encode(raw.getvalue()).decode()


def display(**data) -> dict:
    return {"output_type": "display_data", "data": {k.replace("__", "/"): v for k, v in data.items()}, "metadata": {}}


def only(output: dict) -> dict:
    (safe,) = sanitise.outputs([output])
    return safe


def test_text_errors_and_bitmaps_are_kept_with_their_colours():
    png, jpeg = bitmap("PNG"), bitmap("JPEG")
    found = [
        {"output_type": "stream", "name": "stderr", "text": ["\x1b[31mred\x1b[0m", "\n"]},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mE\x1b[0m: v"]},
        display(image__png=png[:20] + "\n" + png[20:], text__plain="<Figure>"),
        display(image__jpeg=jpeg),
        {"output_type": "execute_result", "data": {"text/plain": "3"}, "execution_count": 7, "metadata": {"x": EVIL}},
    ]
    stream, error, first, second, result = sanitise.outputs(found)
    assert stream.text == "\x1b[31mred\x1b[0m\n" and stream.name == "stderr"
    assert error.traceback == ["\x1b[31mE\x1b[0m: v"]
    assert first.data == {"image/png": png, "text/plain": "<Figure>"}
    assert second.data == {"image/jpeg": jpeg}
    assert result.metadata == {} and result.execution_count == 7


@pytest.mark.parametrize(
    "mime",
    [
        *("text/html", "application/javascript", "text/markdown", "text/latex", "application/pdf", "image/gif"),
        *("application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json", "text/x-anything"),
    ],
)
def test_what_could_run_is_dropped_and_its_text_stays(mime):
    assert only({"output_type": "display_data", "data": {mime: EVIL, "text/plain": "t"}}).data == {"text/plain": "t"}
    assert only({"output_type": "display_data", "data": {mime: EVIL}}).data == {
        "text/plain": "[an output that has no text is not shown]"
    }


@pytest.mark.parametrize(
    "fake",
    [
        *('"><script>alert(1)</script>', base64.b64encode(EVIL.encode()).decode(), "", 7, None, {"a": 1}),
        base64.b64encode(b"\x89PNG\r\n\x1a\n" + EVIL.encode()).decode(),
        bitmap("PNG") + '" onerror="alert(1)',
    ],
)
def test_an_image_that_is_none_is_not_shown(fake):
    for mime in ("image/png", "image/jpeg"):
        found = sanitise.outputs([{"output_type": "display_data", "data": {mime: fake, "text/plain": "t"}}])
        assert [output.data for output in found] == [{"text/plain": "t"}]


def test_a_bitmap_that_would_fill_the_memory_is_not_shown():
    raw = bytearray(base64.b64decode(bitmap("PNG")))
    raw[16:24] = (60_000).to_bytes(4) * 2
    shown = only(display(image__png=base64.b64encode(raw).decode()))
    assert shown.data == {"text/plain": "[an image of 60,000 x 60,000 pixels is not shown]"}
    large = base64.b64encode(base64.b64decode(bitmap("PNG")) + bytes(sanitise.LARGEST)).decode()
    assert "bytes is not shown" in only(display(image__png=large)).data["text/plain"]


def matplotlibs_drawing() -> str:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([0, 1], "o-", label="$x^2$")
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    return drawn.getvalue()


IMG = '<img alt="drawing" style="max-width:100%" src="data:image/svg+xml;base64,{}">'  # once made for a harmless SVG
DRAWINGS = {
    "harmless": SVG.format(""),
    "matplotlib's": matplotlibs_drawing(),
    "a script": SVG.format("<script>alert(1)</script>"),
    "a handler": SVG.replace("<svg", '<svg onload="alert(1)"').format(""),
    "a filter": SVG.format("<filter/>"),
    "a style": SVG.format("<style>*{fill:url(#a)}</style>"),
    "a request": SVG.format('<image href="http://example.org/x.png"/>'),
    "a circle of references": SVG.format('<g id="b"><use href="#b"/></g>'),
    "a bomb": SVG.format(BOMB),
    "a pattern in itself": SVG.format('<rect fill="url(#p)"/><pattern id="p"><rect fill="url(#p)"/></pattern>'),
    "deep": SVG.format("<g>" * 100 + "</g>" * 100),
    "not XML": SVG.format("<open>"),
    "entities": '<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>' + SVG.format("<text>&b;</text>"),
    "in pieces": ["<svg>", "<rect/>", "</svg>"],
    "not text": {"svg": 1},
}


@pytest.mark.parametrize("found", DRAWINGS.values(), ids=DRAWINGS)
def test_svg_of_any_kind_is_not_shown(found):
    not_shown = {"text/plain": "[a drawing in SVG is not shown here; PNG and JPEG images are]"}
    assert only({"output_type": "display_data", "data": {"image/svg+xml": found}}).data == not_shown
    both = {"image/svg+xml": found, "text/plain": "<Figure>"}
    assert only({"output_type": "execute_result", "data": both}).data == {"text/plain": "<Figure>"}
    assert only({"output_type": "display_data", "data": {**both, "image/png": bitmap("PNG")}}).data == {
        "image/png": bitmap("PNG"),
        "text/plain": "<Figure>",
    }


@pytest.mark.parametrize("found", [found for found in DRAWINGS.values() if isinstance(found, str)])
def test_svg_gets_through_under_no_other_name(found):
    encoded = base64.b64encode(found.encode()).decode()
    for mime in ("text/html", "image/png", "image/jpeg", "image/svg", "image/SVG+XML", "image/svg+xml; charset=utf-8"):
        for disguised in (found, encoded, IMG.format(encoded), IMG.format(encoded) + EVIL):
            shown = only({"output_type": "display_data", "data": {mime: disguised, "text/plain": "t"}})
            assert shown.data == {"text/plain": "t"}


def test_long_and_many_outputs_are_cut_with_a_note():
    text = only({"output_type": "stream", "name": "stdout", "text": "a" * 50_000 + "the end"}).text
    assert len(text) <= sanitise.LONGEST_TEXT and "characters are not shown" in text and text.endswith("the end")
    many = sanitise.outputs([display(text__plain=str(i)) for i in range(5000)])
    assert len(many) == sanitise.MOST_OUTPUTS + 1 and "4,900 more outputs" in many[-1].text
    large = sanitise.outputs([display(text__plain="a" * 15_000)] * 10, room=40_000)
    assert len(large) == 3 and "too large" in large[-1].text


def test_a_progress_bar_keeps_its_last_state():
    pieces = [{"output_type": "stream", "name": "stderr", "text": f"\r{i} %"} for i in range(0, 101, 10)]
    assert only_text(pieces) == "100 %"
    assert only_text([{"output_type": "stream", "name": "stdout", "text": "a\r\nb\r\n"}]) == "a\nb\n"


def only_text(found: list) -> str:
    (output,) = sanitise.outputs(found)
    return output.text


def test_what_cannot_be_written_or_deceives_the_eye_is_replaced():
    assert sanitise.text("a\ud800\0\u202eb\tc\n\x1b[1m") == "a���b\tc\n\x1b[1m"
    only({"output_type": "stream", "name": "stdout", "text": "\udcff"}).text.encode()


def test_a_students_markdown_is_prose_or_code():
    assert sanitise.markdown("I think *so*: 2 > 1.") == "I think *so*: 2 > 1."
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    for source in (
        EVIL,
        "[a](javascript:alert(1))",
        "[a]: javascript:alert(1)\n[a]",
        "$\\href{javascript:alert(1)}{x}$",
    ):
        for disguise in ("{}", "```\n{}", "a\n```\n```\n{}", "~~~\n{}\n~~~\n{}", "$$\n```\n$${}$$", "    {}"):
            html = markdown2html_mistune(sanitise.markdown(disguise.replace("{}", source)))
            assert html.startswith("<pre><code>") and html.count("<") == 4, html


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
kinds = st.sampled_from(["stream", "error", "display_data", "execute_result", "update_display_data"])
mimes = st.sampled_from(
    ["text/plain", "text/html", "image/png", "image/jpeg", "image/svg+xml", "application/javascript"]
)
odd_outputs = st.fixed_dictionaries(
    {"output_type": kinds | json_values},
    optional={
        "data": st.dictionaries(mimes, json_values, max_size=3) | json_values,
        **dict.fromkeys(("text", "name", "ename", "evalue", "traceback", "metadata", "execution_count"), json_values),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(odd_outputs | json_values, max_size=4) | json_values)
def test_whatever_a_kernel_sends_a_valid_notebook_comes_out(found):
    safe = sanitise.outputs(found)
    assert sanitise.outputs(safe) == safe
    json.dumps(safe).encode()
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=safe)])
    nbformat.validate(notebook)
    for output in safe:
        for mime, value in output.get("data", {}).items():
            assert mime == "text/plain" or sanitise.image(mime, value)[0] == value
