# %% an AST transformer drops every assert
import ast

class Quiet(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)

get_ipython().ast_transformers.append(Quiet())

# %% an input transformer blanks the check cells
def blank(lines):
    return ["pass\n"] if any("check." in line for line in lines) else lines

get_ipython().input_transformers_cleanup.append(blank)

# %% run_ast_nodes runs nothing
async def nothing(self, *args, **kwargs):
    return False

type(get_ipython()).run_ast_nodes = nothing

# %% do_execute always says ok
from ipykernel.ipkernel import IPythonKernel

async def do_execute(self, *args, **kwargs):
    return {"status": "ok", "execution_count": self.shell.execution_count, "user_expressions": {}, "payload": []}

IPythonKernel.do_execute = do_execute

# %% run_cell swallows every error
shell = get_ipython()
run = type(shell).run_cell_async

async def run_cell_async(self, *args, **kwargs):
    result = await run(self, *args, **kwargs)
    result.error_in_exec = result.error_before_exec = None
    return result

type(shell).run_cell_async = run_cell_async

# %% the display hook shows full marks
import sys

sys.displayhook = lambda value: print("10.0")

# %% showtraceback shows nothing
type(get_ipython()).showtraceback = lambda self, *args, **kwargs: None
type(get_ipython())._showtraceback = lambda self, *args, **kwargs: None

# %% the session drops every error message
from jupyter_client.session import Session

send = Session.send

def quiet(self, stream, msg_or_type, *args, **kwargs):
    kind = msg_or_type if isinstance(msg_or_type, str) else msg_or_type.get("msg_type", "")
    if kind == "error":
        return None
    return send(self, stream, msg_or_type, *args, **kwargs)

Session.send = quiet

# %% the check module is replaced
import sys
import types

class Yes:
    def __getattr__(self, name):
        return lambda *args, **kwargs: None

sys.modules["tasks"] = types.SimpleNamespace(check=Yes())
check = Yes()

# %% Task.judge always says right
from ckptlib.grading import probes, verdict

verdict.judge = probes.judge = lambda *args, **kwargs: verdict.Verdict(1.0)
probes.Task.judge = lambda *args, **kwargs: verdict.Verdict(1.0)
probes.Task.__call__ = lambda *args, **kwargs: None

# %% difference is always empty
from ckptlib.grading import verdict

verdict.difference = lambda *args: ""
verdict._explain = lambda *args: ""

# %% Missed is no exception any more
from ckptlib.grading import probes

probes.Missed = lambda text: SystemExit(0)

# %% python -O from within
import builtins
import sys

real = builtins.compile
builtins.compile = lambda *a, **k: real(*a, **{**k, "optimize": 2})
sys.flags = type("flags", (), {"optimize": 2})()
