# %% every display is an answer
from IPython.display import display

MIME = "application/vnd.ckptlib.answer+json"
display({MIME: {"nonce": "", "data": {"cases": [0, 0, 0]}}}, raw=True)
display({MIME: {"nonce": "*", "data": {"missing": []}}}, raw=True)

# %% respond answers as it likes
import json

from IPython.display import display

from ckptlib.grading.run import probes_in_kernel

def respond(request):
    asked = json.loads(request)
    data = {"cases": [{"dict": [[k, 0] for k in ("parameters", "gradients", "optimizer", "times_3", "plus", "nothing")]} for _ in asked["seeds"]]}
    display({probes_in_kernel.MIME: {"nonce": asked["nonce"], "data": data}}, raw=True)

probes_in_kernel.respond = respond

# %% respond answers twice
from ckptlib.grading.run import probes_in_kernel

real = probes_in_kernel.respond
probes_in_kernel.respond = lambda request: (real(request), real(request))

# %% respond sends verdicts instead of data
import json

from IPython.display import display

from ckptlib.grading.run import probes_in_kernel

def respond(request):
    nonce = json.loads(request)["nonce"]
    display({probes_in_kernel.MIME: {"nonce": nonce, "data": {"share": 1.0, "score": 10, "right": True, "points": 10}}}, raw=True)

probes_in_kernel.respond = respond

# %% respond sends monsters
import json

from IPython.display import display

from ckptlib.grading.run import probes_in_kernel

def respond(request):
    nonce, deep = json.loads(request)["nonce"], []
    for _ in range(2000):
        deep = [deep]
    display({probes_in_kernel.MIME: {"nonce": nonce, "data": {"cases": [deep, {"array": "A" * 10**6, "dtype": "float32", "stored": "object", "shape": [2**62]}, 10**5000]}}}, raw=True)

probes_in_kernel.respond = respond

# %% the encoder lies
from ckptlib.grading.tasks import answer_encoding, probes

probes.encode = answer_encoding.encode = lambda value: {"dict": []}

# %% the reference's data guessed from the seeds
from ckptlib.grading.tasks import probes

ask = probes.Task.ask

def peek(self, answers, seeds):
    return [{"dict": [["nothing", 0], ["times_3", 0], ["plus", 0], ["not even one sample fits", 1]]} for _ in seeds]

probes.Task.ask = peek

# %% messages forged on the wire
import zmq

shell = get_ipython().kernel
session = shell.session
for kind in ("execute_reply", "status", "display_data", "error"):
    try:
        session.send(shell.iopub_socket, kind, {"status": "ok", "execution_state": "idle", "data": {}, "metadata": {}})
    except Exception as error:
        print(error)

# %% garbage on the sockets
kernel = get_ipython().kernel
for junk in (b"", b"\x00" * 10**5, b"<IDS|MSG>", b"\xff" * 100):
    try:
        kernel.iopub_socket.send_multipart([junk, junk, b"<IDS|MSG>", junk, junk])
    except Exception as error:
        print(error)

# %% the tamper check is replaced
from ckptlib.grading.run import probes_in_kernel

probes_in_kernel.sample = lambda seed: {}

# %% execution counts and replies of the future
kernel = get_ipython().kernel
kernel.shell.execution_count = 10**9
kernel.session.msg_id = property(lambda self: "same")

# %% scores printed as an execute_result
from IPython.display import publish_display_data

publish_display_data({"text/plain": "10.0"})
10.0

# %% the tamper check answers with numbers beyond every float
import json

from IPython.display import display

from ckptlib.grading.run import probes_in_kernel

def respond(request):
    asked = json.loads(request)
    claimed = {"dict": [[k, 10**4000] for k in ("product", "gradient", "unequal", "python", "builtins", "grading", "saved")]}
    display({probes_in_kernel.MIME: {"nonce": asked["nonce"], "data": {"cases": [claimed] * len(asked["seeds"])}}}, raw=True)

probes_in_kernel.respond = respond

# %% numbers beyond every float
predict_saved = saved_nbytes = largest_batch = lambda *a, **k: 10**400
ledger = lambda *a: {"parameters": 10**400, "gradients": -10**4000, "optimizer": 10**400}
audit = lambda **k: {"parameters": 10**400, "parameters_gib": 10**400, "training_gib": -10**400, "attention_gb": 1e308 * 10}

# %% a list of what is missing that fills the page
import json

from IPython.display import display

from ckptlib.grading.run import probes_in_kernel

def respond(request):
    asked = json.loads(request)
    names = ["\x1b[2J\x1b[31m<script>alert(1)</script>\r\n" * 1000] * 50
    display({probes_in_kernel.MIME: {"nonce": asked["nonce"], "data": {"missing": names}}}, raw=True)

probes_in_kernel.respond = respond

# %% what was raised fills the page
import json

from IPython.display import display

from ckptlib.grading.run import probes_in_kernel

def respond(request):
    asked = json.loads(request)
    case = {"raised": "\x1b[2J\x1b[31m<script>alert(1)</script>\r\n" * 10000}
    display({probes_in_kernel.MIME: {"nonce": asked["nonce"], "data": {"cases": [case] * len(asked["seeds"])}}}, raw=True)

probes_in_kernel.respond = respond

# %% the name of a class draws on the terminal
Evil = type("\x1b[2J\x1b]0;owned\x07\n<img src=x onerror=alert(1)>" * 50, (Exception,), {})

def predict_saved(*args, **kwargs):
    raise Evil("\x1b[31m\x00\u202e" * 100)

saved_nbytes = lambda *a: Evil()
ledger = lambda *a: {"parameters": Evil(), "gradients": "\x1b[2J", "optimizer": {Evil(): 1}}

# %% half a surrogate pair in raw bytes
session = get_ipython().kernel.session
pack = session.pack
session.pack = lambda obj: pack(obj).replace(b"SURROGATE", b"\xed\xa0\x80")
print("SURROGATE")

# %% messages in UTF-16
session = get_ipython().kernel.session
pack = session.pack
session.pack = lambda obj: pack(obj).decode().replace("SURROGATE", "\ud800").encode("utf-16", "surrogatepass") if b"SURROGATE" in pack(obj) else pack(obj)
print("SURROGATE")

# %% a thread that waits for the request and answers first
import gc
import json
import threading
import time

from ckptlib.grading.run import probes_in_kernel

kernel = get_ipython().kernel

def wait():
    done = set()
    while True:
        time.sleep(0.001)
        parent = kernel.get_parent()
        code = parent.get("content", {}).get("code", "") if parent else ""
        if "respond(" in code and parent["header"]["msg_id"] not in done:
            done.add(parent["header"]["msg_id"])
            asked = json.loads(eval(code[code.index("respond(") + 8 : code.rindex(")")]))
            data = {"cases": [{"dict": [[k, 0] for k in ("nothing", "times_3", "plus")]} for _ in asked["seeds"]]}
            kernel.session.send(kernel.iopub_socket, "display_data", {"data": {probes_in_kernel.MIME: {"nonce": asked["nonce"], "data": data}}, "metadata": {}, "transient": {}}, parent=parent)

threading.Thread(target=wait, daemon=True).start()

# %% comm messages, payloads and display updates
from IPython.display import display

kernel = get_ipython().kernel
get_ipython().set_next_input("predict_saved = lambda *a: 0", replace=True)
get_ipython().payload_manager.write_payload({"source": "page", "data": {"text/plain": "10.0"}, "start": 0})
for kind in ("comm_open", "comm_msg", "input_request", "shutdown_reply", "iopub_welcome", "debug_event"):
    kernel.session.send(kernel.iopub_socket, kind, {"comm_id": "x", "target_name": "y", "data": {"score": 10}}, parent=kernel.get_parent())
shown = display({"text/plain": "0"}, raw=True, display_id="score")
MIME = "application/vnd.ckptlib.answer+json"
display({MIME: {"nonce": "", "data": {"cases": []}}}, raw=True, display_id="score", update=True)

# %% metadata bombs in every message
session = get_ipython().kernel.session
deep = []
for _ in range(60):
    deep = [deep]
session.metadata = {"deep": deep, "wide": list(range(10000))}
real = type(session).send
type(session).send = lambda self, *a, **k: real(self, *a, **{**k, "metadata": {"x": "y" * 100000}})

# %% json itself lies
import json

loads, dumps = json.loads, json.dumps
json.loads = lambda *a, **k: {**loads(*a, **k), "name": "tamper check"} if "nonce" in str(a[0]) else loads(*a, **k)
json.JSONEncoder.encode = lambda self, o: "0"
json.dumps = lambda *a, **k: "{}"

# %% the tasks are loaded from the student's text
import types

from ckptlib.grading.run import probes_in_kernel

def easy(source):
    class Easy:
        names = []
        ask = lambda self, answers, seeds: [{"dict": [["nothing", 0], ["plus", 0], ["times_3", 0]]} for _ in seeds]
    names = ["predict_saved", "saved_nbytes", "ledger", "largest_batch", "audit", "quiz"]
    return types.SimpleNamespace(check=types.SimpleNamespace(tasks=dict.fromkeys(names, Easy())))

probes_in_kernel.load_tasks = easy

# %% floods of displays and their updates
kernel = get_ipython().kernel
session, iopub, parent = kernel.session, kernel.iopub_socket, kernel.get_parent()

def say(kind, content):
    parts = [session.pack(p) for p in ({"msg_type": kind}, {"msg_id": parent["header"]["msg_id"]}, {}, content)]
    iopub.send_multipart([b"x", b"<IDS|MSG>", session.sign(parts), *parts])

for i in range(10000):
    say("display_data", {"data": {}, "transient": {"display_id": "d"}})
    if i % 500 == 0:
        say("clear_output", {})
for i in range(20000):
    say("update_display_data", {"data": {}, "transient": {"display_id": "d"}})
    if i % 500 == 0:
        say("clear_output", {})
