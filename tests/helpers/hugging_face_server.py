"""As much of the Hugging Face hub as its library asks for when it makes, lists, fills and reads a model repository."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import re
from typing import Any

from huggingface_hub import constants


class Hub(http.server.BaseHTTPRequestHandler):
    """Repositories are ``repositories[name][file]``; each commit has the SHA-1 of what it holds."""

    protocol_version = "HTTP/1.1"
    repositories: dict[str, dict[str, bytes]]
    commits: dict[str, str]
    """The message of the newest commit of each repository."""
    claims: dict[str, int]
    """Sizes that are told in place of the true ones."""
    asked: list[str]
    private: set[str]
    token = "hf_of_the_owner"

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append(f"POST {self.path}")
        if self.headers.get("Authorization") != f"Bearer {self.token}":
            return self.tell({"error": "Invalid username or password."}, 401)
        if self.path == "/api/repos/create":
            told = json.loads(body)
            name = f"{told['organization']}/{told['name']}" if told.get("organization") else told["name"]
            url = f"{constants.ENDPOINT}/{name}"
            if name in self.repositories:
                return self.tell({"error": "You already created this model repo", "url": url}, 409)
            if told.get("private") or told.get("visibility") == "private":  # by the version of the library
                self.private.add(name)
            self.repositories[name] = {".gitattributes": b"*.onnx filter=lfs\n"}
            return self.tell({"url": url})
        if self.path == "/api/validate-yaml":
            return self.tell({"errors": [], "warnings": []})
        name, action = self.split()
        if action.startswith("preupload/"):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self.tell({"files": files})
        if action.startswith("commit/"):
            for row in map(json.loads, body.splitlines()):
                self.apply(name, row["key"], row["value"])
            url = f"{constants.ENDPOINT}/{name}/commit/{self.sha(name)}"
            return self.tell({"success": True, "commitUrl": url, "commitOid": self.sha(name), "hookOutput": ""})
        self.tell({"error": "not here"}, 404)

    def apply(self, name: str, key: str, value: Any) -> None:
        if key == "header":
            self.commits[name] = value["summary"]
        elif key == "file":
            self.repositories[name][value["path"]] = base64.b64decode(value["content"])
        elif key == "deletedFile":
            del self.repositories[name][value["path"]]
        else:
            raise KeyError(key)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        if (found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path)) and (
            content := self.repositories.get(found[1], {}).get(found[3])
        ) is not None:
            return self.tell_bytes(content, found[1])
        name, action = self.split()
        if name not in self.repositories:
            return self.tell({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        if action.startswith("tree/"):
            rows = [{"type": "file", "path": path, "size": len(c), "oid": _blob(c)} for path, c in self.files(name)]
            return self.tell(rows)
        if action.startswith("revision/") and action.removeprefix("revision/") not in ("main", self.sha(name)):
            return self.tell({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        siblings = [
            {"rfilename": path, "size": self.claims.get(path, len(content)), "blobId": _blob(content)}
            for path, content in self.files(name)
        ]
        self.tell({"id": name, "sha": self.sha(name), "siblings": siblings, "private": name in self.private, "tags": [],
                   "downloads": 0})  # fmt: skip

    def split(self) -> tuple[str, str]:
        found = re.match(r"/api/models/([^/?]+/[^/?]+)/?([^?]*)", self.path)
        return (found[1], found[2]) if found else ("", "")

    def files(self, name: str) -> list[tuple[str, bytes]]:
        return sorted(self.repositories[name].items())

    def sha(self, name: str) -> str:
        return hashlib.sha1(repr(self.files(name)).encode()).hexdigest()

    def tell(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for key, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def tell_bytes(self, content: bytes, name: str) -> None:
        self.send_response(200)
        self.send_header("ETag", f'"{_blob(content)}"')
        self.send_header("X-Repo-Commit", self.sha(name))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
