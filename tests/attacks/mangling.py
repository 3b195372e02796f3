"""What happens to honest files on the way. Each function takes an honest notebook's bytes and returns the files handed in.

The honest student keeps all ten points, unless the docstring says what is left.
"""

import copy
import gzip
import io
import json
import zipfile

NAME = "01_activation_memory.ipynb"


def cells(raw):
    notebook = json.loads(raw)
    return notebook, notebook["cells"]


def dumped(notebook):
    return {NAME: json.dumps(notebook).encode()}


def about(cell):
    return cell["metadata"].get("nbgrader", {})


def without_metadata(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        cell["metadata"] = {}
    return dumped(notebook)


def without_metadata_and_ids(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        cell["metadata"] = {}
        cell.pop("id")
    return dumped(notebook)


def check_cells_deleted(raw):
    notebook, all_cells = cells(raw)
    notebook["cells"] = [cell for cell in all_cells if not about(cell).get("grade")]
    return dumped(notebook)


def check_cells_emptied(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        if about(cell).get("grade"):
            cell["source"] = "pass"
    return dumped(notebook)


def every_cell_twice(raw):
    notebook, all_cells = cells(raw)
    notebook["cells"] = [copy.deepcopy(cell) for cell in all_cells for _ in range(2)]
    return dumped(notebook)


def stubs_pasted_below(raw):
    notebook, all_cells = cells(raw)
    stub = "def {}(*args):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    copies = [copy.deepcopy(cell) for cell in all_cells if about(cell).get("solution")]
    for cell in copies:
        cell["source"] = stub.format(about(cell)["grade_id"])
        cell["id"] = cell["id"] + "-old"
    notebook["cells"] = copies + all_cells
    return dumped(notebook)


def in_reverse_order(raw):
    notebook, all_cells = cells(raw)
    notebook["cells"] = all_cells[::-1]
    return dumped(notebook)


def answers_split_in_two(raw):
    notebook, all_cells = cells(raw)
    out = []
    for cell in all_cells:
        out.append(cell)
        if about(cell).get("grade_id") == "saved_nbytes":
            rest = copy.deepcopy(cell)
            rest["id"], rest["metadata"] = "the-rest", {}
            cell["source"] = "helper = 1"
            out.append(rest)
    notebook["cells"] = out
    return dumped(notebook)


def one_answer_deleted(raw):
    """Left: 8, for the ledger is gone."""
    notebook, all_cells = cells(raw)
    notebook["cells"] = [cell for cell in all_cells if about(cell).get("grade_id") != "ledger"]
    return dumped(notebook)


def from_colab(raw):
    notebook, all_cells = cells(raw)
    mount = {"cell_type": "code", "source": "from google.colab import drive\ndrive.mount('/content/drive')", "metadata": {"id": "x"}}
    for cell in all_cells:
        cell["metadata"] = {"id": "Ab1", "colab": {"base_uri": "https://localhost:8080/"}, "outputId": "7"}
        cell.pop("id")
    notebook["cells"] = [mount | {"outputs": [], "execution_count": None}, *all_cells]
    notebook["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3", "display_name": "Python 3"}, "accelerator": "GPU"}
    notebook["nbformat_minor"] = 0
    return dumped(notebook)


def other_kernel(raw):
    notebook, _ = cells(raw)
    notebook["metadata"] = {"kernelspec": {"name": "ir", "language": "R", "display_name": "R"}, "language_info": {"name": "R"}}
    return dumped(notebook)


def points_raised(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        if about(cell):
            about(cell)["points"] = 1000
            about(cell)["schema_version"] = 1
    return dumped(notebook)


def schema_of_the_future(raw):
    notebook, all_cells = cells(raw)
    notebook["nbformat"], notebook["nbformat_minor"] = 4, 99
    for cell in all_cells:
        if about(cell):
            about(cell)["schema_version"] = 99
    return dumped(notebook)


def answers_as_text_cells(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        if about(cell).get("solution"):
            cell["cell_type"] = "markdown"
            cell.pop("outputs")
            cell.pop("execution_count")
    return dumped(notebook)


def with_a_byte_order_mark(raw):
    return {NAME: b"\xef\xbb\xbf" + raw}


def in_utf_16(raw):
    return {NAME: raw.decode().encode("utf-16")}


def with_crlf(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")
    return {NAME: json.dumps(notebook, indent=1).replace("\n", "\r\n").encode()}


def renamed(raw):
    return {"Copy of 01_activation_memory (1) FINAL.ipynb": raw}


def in_a_folder(raw):
    return {"homework/01_activation_memory.ipynb": raw, "notes.txt": b"hello"}


def beside_a_blank_one(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        if about(cell).get("solution"):
            cell["source"] = "# YOUR CODE HERE\nraise NotImplementedError()"
    return {NAME: json.dumps(notebook).encode(), "01_activation_memory-Copy1.ipynb": raw}


def answers_in_the_check_cells(raw):
    notebook, all_cells = cells(raw)
    solved = {about(cell)["grade_id"]: cell for cell in all_cells if about(cell).get("solution")}
    for cell in all_cells:
        if about(cell).get("grade"):
            answer = solved[about(cell)["grade_id"].removeprefix("check-")]
            cell["source"] = "".join(answer["source"]) + "\n\n" + "".join(cell["source"])
            answer["source"] = ""
    return dumped(notebook)


def an_error_in_one_answer(raw):
    """Left: 8, for the ledger does not parse."""
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        if about(cell).get("grade_id") == "ledger":
            cell["source"] = "def ledger(model, optimizer)\n    return {}"
    return dumped(notebook)


def empty(raw):
    """Left: 0."""
    return {NAME: b""}


def nothing_at_all(raw):
    """Left: 0."""
    return {}


def truncated(raw):
    """Left: 0."""
    return {NAME: raw[: len(raw) // 2]}


def a_zip_file(raw):
    """Left: 0."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(NAME, raw)
    return {NAME: file.getvalue()}


def no_notebook(raw):
    """Left: 0."""
    return {NAME: b'{"answer": 42}'}


def brackets_without_end(raw):
    """Left: 0."""
    return {NAME: b"[" * 200_000}


def a_python_file(raw):
    """Left: 0."""
    return {"01_activation_memory.py": b"print('hello')"}


def cells_that_are_no_cells(raw):
    """Left: 0."""
    return {NAME: json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [None, 3, "x", [], {}]}).encode()}


def a_compressed_file(raw):
    """Left: 0."""
    return {NAME: gzip.compress(raw)}


def every_key_twice(raw):
    return {NAME: raw.replace(b'"cells": [', b'"cells": [], "cells": [', 1)}


def numbers_that_are_none(raw):
    return {NAME: raw.replace(b'"cells": [', b'"x": [NaN, -Infinity, 1e999, "\\ud800"], "cells": [', 1)}


def metadata_nine_hundred_deep(raw):
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    return {NAME: raw.replace(b'"cells": [', b'"x": ' + deep + b', "cells": [', 1)}


def in_utf_32(raw):
    return {NAME: raw.decode().encode("utf-32")}


def lines_that_end_with_cr_only(raw):
    return {NAME: raw.replace(b"\n", b"\r")}


def the_rest_of_an_older_file_behind_it(raw):
    return {NAME: raw + b'\n"source": []}]} // saved twice'}


def one_id_for_all_cells(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        cell["id"] = "same"
    return dumped(notebook)


def nbformat_3(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        cell.pop("id")
        if cell["cell_type"] == "code":
            cell["input"], cell["language"] = cell.pop("source"), "python"
    return dumped({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": all_cells}]})


def sources_with_what_is_no_text(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        cell["source"] = [None, 3, {"x": 1}, *"".join(cell["source"]).splitlines(keepends=True)]
    return dumped(notebook)


def answers_as_raw_cells(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        if about(cell).get("solution"):
            cell["cell_type"] = "raw"
    return dumped(notebook)


def a_byte_order_mark_and_a_coding_in_every_answer(raw):
    notebook, all_cells = cells(raw)
    for cell in all_cells:
        if about(cell).get("solution"):
            cell["source"] = "\ufeff# coding: utf-7\n" + "".join(cell["source"]) + ";"
    return dumped(notebook)


def nineteen_mebibytes_of_output(raw):
    notebook, all_cells = cells(raw)
    code = next(cell for cell in all_cells if cell["cell_type"] == "code")
    code["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 19 * 2**20}]
    return dumped(notebook)


def files_that_are_named_like_modules(raw):
    names = "torch ckptlib json random base64 IPython sitecustomize conftest key nbgrader_config".split()
    return {NAME: raw, "tasks.py/x": b"", "visible.json/y": b"", "a\x1b[2J\n<b>.txt": b"", **{f"{n}.py": b"1 / 0" for n in names}}


def thousands_of_files(raw):
    return {NAME: raw, **{f"data/{i}.txt": b"x" for i in range(2000)}}
