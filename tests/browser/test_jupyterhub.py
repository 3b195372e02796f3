"""Can two classes work on one JupyterHub, from the release to the feedback, as INSTRUCTORS.md describes it?

Four people with Unix accounts: grace grades one course and linus the other, at the same time; ada and alan are students
of both. The accounts, the hub's files and its processes are in a machine of their own, and end with it.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import own_machine  # noqa: E402
import psutil  # noqa: E402
import pytest  # noqa: E402
from lab import Notebook, write_settings  # noqa: E402
from nbgrader.api import Gradebook  # noqa: E402
from playwright.sync_api import Browser, Locator, Page, expect  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = "01_activation_memory"
GRADERS = {"memory": "grace", "systems": "linus"}
STUDENTS = {"memory": "ada", "systems": "alan"}
# One course's answers to the quiz have a mistake more than the other's.
QUIZ = {"memory": 'q1, q2, q3, q4 = "a", "c", "c", "b"', "systems": 'q1, q2, q3, q4 = "b", "c", "c", "b"'}
POINTS = {"memory": 0.5, "systems": 0.75}
LIMIT_S = 1200
PATIENCE_MS = 240_000  # for what starts programs, on a busy machine


class Hub:
    """A hub that runs, and the homes of its people."""

    def __init__(self, address: str, homes: Path, process: psutil.Process, browser: Browser) -> None:
        self.address, self.homes, self.process, self._browser = address, homes, process, browser

    def log_in(self, user: str) -> "Person":
        page = self._browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(f"{self.address}/hub/login")
        page.locator("#username_input").fill(user)
        page.locator("#password_input").fill(f"password of {user}")
        page.locator("#login_submit").click()
        return Person(self, user, page)


class Person:
    """Somebody who has logged in, with JupyterLab in a tab of its own."""

    def __init__(self, hub: Hub, user: str, page: Page) -> None:
        self.hub, self.user, self.page, self.home = hub, user, page, hub.homes / user

    def wait(self) -> None:
        """Until this person's server runs, and JupyterLab is drawn."""
        expect(self.page.locator("#jp-main-dock-panel")).to_be_visible(timeout=PATIENCE_MS)

    def picture(self, folder: Path, name: str, page: Page | None = None) -> None:
        """What this person sees now, for whoever wants to look at it."""
        (page or self.page).screenshot(path=folder / f"{name}-{self.user}.png")

    def menu(self, *names: str) -> None:
        self.page.locator(".lm-MenuBar-item", has_text=re.compile(f"^{names[0]}$")).click()
        for name in names[1:]:
            self.page.locator(".lm-Menu-item", has_text=re.compile(f"^{name}$")).click()

    def type(self, line: str) -> None:
        """Type a line into this person's terminal."""
        terminal = self.page.locator(".jp-Terminal .xterm-screen")
        if not terminal.count():
            self.menu("File", "New", "Terminal")
        expect(terminal).to_be_visible(timeout=PATIENCE_MS)
        terminal.click()
        self.page.keyboard.insert_text(line)
        self.page.keyboard.press("Enter")

    def finished(self, file: str) -> str:
        """What a typed line wrote into this file; it has ended when the file's last line is its exit code."""
        path, end = self.home / file, time.monotonic() + PATIENCE_MS / 1000
        while time.monotonic() < end:
            text = path.read_text() if path.exists() else ""
            if ended := re.search(r"^exit (\d+)\n\Z", text, re.MULTILINE):
                assert ended[1] == "0", text
                return text
            time.sleep(0.2)
        raise AssertionError(f"{self.user}'s line has not ended: {text[-2000:]}")

    # ---- nbgrader's Assignment List ----
    def assignments(self, course: str) -> None:
        if not self.page.locator("#released_assignments_list").count():
            self.menu("Nbgrader", "Assignment List")
        expect(self.page.locator("#course_list_default")).not_to_be_empty(timeout=PATIENCE_MS)
        self.page.locator("#course_list_dropdown").click()
        self.page.locator("#course_list").get_by_text(course, exact=True).click()
        expect(self.page.locator("#course_list_default")).to_have_text(course)

    def listed(self, kind: str) -> Locator:
        """The row of the assignment among those that are released, fetched or submitted."""
        row = self.page.locator(f"#{kind}_assignments_list > .list_item", has_text=NAME)
        expect(row).to_have_count(1, timeout=PATIENCE_MS)
        return row

    def fetch(self) -> None:
        self.listed("released").get_by_role("button", name="Fetch").click()
        self.listed("fetched")

    def submit(self) -> None:
        self.listed("fetched").get_by_role("button", name="Submit").first.click()
        self.listed("submitted")

    def feedback(self) -> str:
        """Fetch the feedback, open it from the file browser, and read it."""
        self.page.locator("#refresh_assignments_list").click()
        expect(self.listed("submitted")).to_contain_text("feedback available to fetch", timeout=PATIENCE_MS)
        self.listed("submitted").get_by_role("button", name="Fetch Feedback").click()
        self.listed("submitted").get_by_text("(view feedback)").click(timeout=PATIENCE_MS)
        self.page.locator(".jp-DirListing-item", has_text=f"{NAME}.html").dblclick(timeout=PATIENCE_MS)
        body = self.page.frame_locator(".jp-HTMLViewer iframe").locator("body")
        expect(body).to_contain_text(NAME, timeout=PATIENCE_MS)
        return body.inner_text()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture(scope="module")
def hub(browser, need) -> Iterator[Hub]:
    own_machine.need()
    need("bubblewrap")
    need("configurable-http-proxy")
    public, proxy, internal = free_ports(3)
    with own_machine.folder("jupyterhub-") as here:
        homes = here / "homes"
        options = [f"--JupyterHub.bind_url=http://127.0.0.1:{public}", f"--JupyterHub.hub_port={internal}"]
        options += [f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{proxy}"]
        start = ["bash", ROOT / "tests/jupyterhub/start.sh", sys.executable, ROOT / "solutions", homes, *options]
        line = own_machine.command(here, "timeout", str(LIMIT_S), *start)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        log = here / "hub.log"
        with log.open("wb") as out:
            process = subprocess.Popen(line, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment)
        try:
            _wait_for("JupyterHub is now running", process, log)
            for student in STUDENTS.values():
                _settings_of(homes / student)
            yield Hub(f"http://127.0.0.1:{public}", homes, psutil.Process(process.pid), browser)
        finally:
            process.kill()  # and with it, everything that was started in its namespace
            process.wait()
            _remove_temporary_files(homes)


def _wait_for(words: str, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + 120
    while words not in log.read_text(encoding="utf-8"):
        if time.monotonic() > end or process.poll() is not None:
            raise AssertionError(f"JupyterHub did not start: {log.read_text(encoding='utf-8')[-3000:]}")
        time.sleep(0.2)


def _settings_of(home: Path) -> None:
    """JupyterLab's settings that let a test see every cell."""
    about = home.stat()
    write_settings(home / ".jupyter" / "lab" / "user-settings")
    for path in [home / ".jupyter", *(home / ".jupyter").rglob("*")]:
        os.chown(path, about.st_uid, about.st_gid)


def _remove_temporary_files(homes: Path) -> None:
    """What programs that were killed left in /tmp, which this machine and its own one share."""
    users = {home.stat().st_uid for home in homes.iterdir()}
    for path in Path("/tmp").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid in users:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def documented() -> tuple[str, str]:
    """What INSTRUCTORS.md tells a grader to type, before the students work and after, each as one line."""
    text = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
    before, after = re.findall(r"^```\n([^`]*^nbgrader release_\w+ 01_activation_memory)\n```$", text, re.MULTILINE)
    return " && ".join(before.splitlines()), " && ".join(after.splitlines())


def both_type(graders: dict[str, Person], line: str, file: str) -> dict[str, str]:
    """Both graders type the same line, and it runs for both at the same time."""
    for course, person in graders.items():
        person.type(f"cd ~/{course} && {{ {line}; }} > ~/{file} 2>&1; echo exit $? >> ~/{file}")
    return {course: person.finished(file) for course, person in graders.items()}


def work(person: Person, course: str, quiz: str, pictures: Path) -> None:
    """Fetch the assignment, answer the quiz, ask the visible check about it, save, and submit."""
    person.assignments(course)
    person.listed("released")
    person.picture(pictures, "1-released")
    person.fetch()
    address = f"{person.hub.address}/user/{person.user}/{{path}}"
    notebook = Notebook(person.page.context, address, f"{course}/{NAME}/{NAME}.ipynb")
    notebook.run(notebook.cell("import torch"))
    notebook.write(notebook.cell("q1 = q2 = q3 = q4"), quiz)
    notebook.run(notebook.cell(quiz))
    assert "quiz" in notebook.run(notebook.cell("check.quiz("))
    notebook.page.keyboard.press("ControlOrMeta+S")
    expect(notebook.changed).to_have_count(0)
    person.picture(pictures, "2-worked", notebook.page)
    notebook.close()
    person.submit()
    person.picture(pictures, "3-submitted")


def test_two_classes_from_the_release_to_the_feedback(hub, tmp_path):
    """It leaves a picture of each step in pytest's own folder, /tmp/pytest-of-USER/pytest-current."""
    people = {user: hub.log_in(user) for user in (*GRADERS.values(), *STUDENTS.values())}
    for person in people.values():
        person.wait()
    graders = {course: people[grader] for course, grader in GRADERS.items()}
    students = {course: people[student] for course, student in STUDENTS.items()}
    before, after = documented()
    both_type(graders, before, "released.txt")
    for course, student in students.items():
        work(student, course, QUIZ[course], tmp_path)
    listening = {
        connection.laddr.ip
        for process in hub.process.children(recursive=True)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    said = both_type(graders, after, "graded.txt")
    for grader in graders.values():
        grader.type("clear; cat ~/graded.txt; echo exit 0 > ~/shown.txt")
        grader.finished("shown.txt")
        grader.page.wait_for_timeout(1000)  # the terminal draws it; nothing but the picture depends on it
        grader.picture(tmp_path, "4-graded")
    for course, student in students.items():
        points = POINTS[course]
        assert re.search(rf"^{student.user} +{points:g} / 10 ", said[course], re.MULTILINE), said[course]
        page = student.feedback()
        student.picture(tmp_path, "5-feedback")
        assert f"Feedback for {student.user}\n" in page and f"{points:g} of 10 points" in page
        assert ("The gradients are the same" in page) == (course == "memory")  # what the choice "a" is told
        with Gradebook(f"sqlite:///{graders[course].home / course / 'gradebook.db'}", course) as gradebook:
            scores = {each.student.id: each.score for each in gradebook.assignment_submissions(NAME)}
        assert scores == {student.user: points}
