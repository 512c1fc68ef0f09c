"""Tools of toolsets, called in this process instead of over a connection."""

from __future__ import annotations

from typing import Any

from .messages import Refused


class Shelf:
    """Tools by name, of toolsets that run in this process: those of another shelf, and more."""

    def __init__(self, other: Shelf | None = None):
        self.tools: dict[str, tuple[Any, Any]] = {} if other is None else dict(other.tools)

    async def add(self, toolset: Any, task: Any = None, *, begin: bool = True) -> None:
        """Add the tools of a toolset; ``begin`` sets it up, for a task's data if there is one."""
        from mcp.server.mcpserver import MCPServer
        from verifiers.v1.state import State, state_cls

        if state_cls(type(toolset)) is not State or getattr(toolset.config, "url", None):
            raise Refused(f"its toolset {type(toolset).__name__} shares state with a rollout, or is on another server")
        if begin:
            await toolset.setup()
            if task is not None:
                await toolset.setup_task(task)
        name = toolset.server_name
        server = MCPServer(name or type(toolset).__name__)
        toolset.register(server)
        for tool in await server.list_tools():
            self.tools[f"{name}_{tool.name}" if name else tool.name] = (server, tool)

    def described(self) -> list[dict[str, Any]]:
        found = []
        for name, (_, tool) in self.tools.items():
            about = (tool.description or name).partition("\n")[0]
            found.append({"name": name, "about": about, "parameters": tool.input_schema})
        return found

    async def call(self, name: str, given: Any) -> str:
        """What a tool says; "error: ..." where it cannot. ``given`` are arguments by name, or a single one."""
        if name not in self.tools:
            return f"error: no tool {name[:60]!r}, there are {', '.join(self.tools)}"
        server, tool = self.tools[name]
        if not isinstance(given, dict):
            names = list(tool.input_schema.get("properties", {}))
            if len(names) != 1:
                return f"error: {name} takes {', '.join(names) or 'no arguments'}, by name"
            given = {names[0]: given.strip() if isinstance(given, str) else given}
        try:
            result = await server.call_tool(tool.name, given)
        except Exception as error:
            return f"error: {error}"
        text = "\n".join(part.text for part in result.content if part.type == "text")
        return f"error: {text}" if result.is_error else text
