"""How does any Jupyter program run a notebook in the sandbox? Its kernelspec names the provisioner `ckptlib-sandbox`.

"metadata": {"kernel_provisioner": {"provisioner_name": "ckptlib-sandbox", "config": {"cold": false}}}
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import KernelProvisionerBase
from traitlets import Bool, Dict, Unicode

from .kernel_process import KernelProcess
from .limits import Limits
from .sandbox import Sandbox, default
from .sockets import CHANNELS
from .usage_watchdog import PERIOD, Watchdog
from .without_isolation import Unconfined, UnconfinedProcess

_KILLED = 9  # the number of SIGKILL, a name that Windows does not know


class SandboxProvisioner(KernelProvisionerBase):
    """Starts kernels in the sandbox. The kernelspec's command is not used: it is always this Python's ipykernel."""

    cold = Bool(False, help="start a process for this kernel alone, with nothing imported").tag(config=True)
    limits = Dict(help="fields of ckptlib.grading.sandbox.limits.Limits").tag(config=True)
    sandboxed = Bool(True, help="False where kernels cannot be isolated: then `warning` says why")
    warning = Unicode("")

    process: KernelProcess | UnconfinedProcess | None = None
    watchdog: Watchdog | None = None
    _own: Sandbox | Unconfined | None = None

    @property
    def has_process(self) -> bool:
        return self.process is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        return await super().pre_launch(cmd=[], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Fork a kernel; Jupyter then connects to its sockets."""
        return await asyncio.get_running_loop().run_in_executor(None, self._launch)

    def _launch(self) -> KernelConnectionInfo:
        sandbox = default()
        if self.cold and sandbox.sandboxed:
            sandbox = self._own = Sandbox.start(preload=())
        self.sandboxed, self.warning = sandbox.sandboxed, sandbox.warning
        limits = Limits(**self.limits)
        key = self.parent.session.key.decode() if self.parent else None
        self.process = sandbox.kernel(limits, channels=CHANNELS, key=key)
        self.process.settle()
        self.watchdog = Watchdog(self.process, limits)
        threading.Thread(target=_watch, args=(self.process, self.watchdog), daemon=True).start()
        info = self.process.connection_info
        self.connection_info = cast(KernelConnectionInfo, {**info, "key": info["key"].encode()})
        if self.parent:  # after a restart it would go on looking for the old sockets
            self.parent.transport, self.parent.ip = self.connection_info["transport"], self.connection_info["ip"]
        return self.connection_info

    async def poll(self) -> int | None:
        if self.process is None:
            return 0
        if self.process.alive():
            return None
        return (self.process.wait(0.1) or {}).get("exit", -_KILLED)

    async def wait(self) -> int | None:
        while (code := await self.poll()) is None:
            await asyncio.sleep(0.02)
        self._end()
        return code

    async def send_signal(self, signum: int) -> None:
        if self.process is not None:
            self.process.signal(signum)

    async def kill(self, restart: bool = False) -> None:
        if self.process is not None:
            self.process.kill()

    async def terminate(self, restart: bool = False) -> None:
        await self.kill(restart)  # pid 1 of a namespace ignores gentler signals that it does not handle

    async def cleanup(self, restart: bool = False) -> None:
        self._end()

    def _end(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None
        if self._own is not None:
            self._own.close()
            self._own = None


def _watch(process: KernelProcess | UnconfinedProcess, watchdog: Watchdog) -> None:
    """For as long as the kernel lives: the process that asked for it cannot be relied on to look after it."""
    while process.exit is None and process.alive():
        watchdog.check()
        time.sleep(PERIOD)
