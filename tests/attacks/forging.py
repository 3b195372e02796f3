# %% every display is an answer
from IPython.display import display

MIME = "application/vnd.ckptlib.answer+json"
display({MIME: {"nonce": "", "data": {"cases": [0, 0, 0]}}}, raw=True)
display({MIME: {"nonce": "*", "data": {"missing": []}}}, raw=True)

# %% respond answers as it likes
import json

from IPython.display import display

from ckptlib.grading import asking

def respond(request):
    asked = json.loads(request)
    data = {"cases": [{"dict": [[k, 0] for k in ("parameters", "gradients", "optimizer", "times_3", "plus", "nothing")]} for _ in asked["seeds"]]}
    display({asking.MIME: {"nonce": asked["nonce"], "data": data}}, raw=True)

asking.respond = respond

# %% respond answers twice
from ckptlib.grading import asking

real = asking.respond
asking.respond = lambda request: (real(request), real(request))

# %% respond sends verdicts instead of data
import json

from IPython.display import display

from ckptlib.grading import asking

def respond(request):
    nonce = json.loads(request)["nonce"]
    display({asking.MIME: {"nonce": nonce, "data": {"share": 1.0, "score": 10, "right": True, "points": 10}}}, raw=True)

asking.respond = respond

# %% respond sends monsters
import json

from IPython.display import display

from ckptlib.grading import asking

def respond(request):
    nonce, deep = json.loads(request)["nonce"], []
    for _ in range(2000):
        deep = [deep]
    display({asking.MIME: {"nonce": nonce, "data": {"cases": [deep, {"array": "A" * 10**6, "dtype": "float32", "stored": "object", "shape": [2**62]}, 10**5000]}}}, raw=True)

asking.respond = respond

# %% the encoder lies
from ckptlib.grading import data, probes

probes.encode = data.encode = lambda value: {"dict": []}

# %% the reference's data guessed from the seeds
from ckptlib.grading import probes

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

# %% the canary is strangled
from ckptlib.grading import asking, canary

canary.sing = lambda seed: {}
asking._canary = lambda seeds: {"cases": []}

# %% execution counts and replies of the future
kernel = get_ipython().kernel
kernel.shell.execution_count = 10**9
kernel.session.msg_id = property(lambda self: "same")

# %% scores printed as an execute_result
from IPython.display import publish_display_data

publish_display_data({"text/plain": "10.0"})
10.0
