"""Every call of the contract besides the runner's two, described once for both clients. A method's body
only says what to ask and how to read the answer; the messages of `memsvc.v1.memory_pb2` come back as they
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from memsvc.v1 import memory_pb2 as pb
from memsvc.v1 import memory_service_pb2 as rpc
from memsvc_client.calls import (
    AsyncService,
    Call,
    Download,
    Kind,
    Pages,
    Service,
    answered,
    call,
    listed,
    method_of,
    nothing,
    pages,
    read,
    whole,
    write,
)
from memsvc_client.values import Scope, timestamp

IMPORT_MESSAGE_BYTES = 1024 * 1024


class ThreadCalls:
    """The conversations of a scope, for a user interface.

    Only threads that have a run are known here. Deleting needs the reviewer's role.
    """

    @answered
    def get(self, scope: Scope, thread_id: str) -> Call[pb.Thread]:
        """One thread, archived or not. ThreadNotInScope where the scope has none of that id."""
        request = rpc.GetThreadRequest(scope=scope.to_message(), thread_id=thread_id)
        return read(request, rpc.GetThreadResponse, lambda r: r.thread)

    @listed
    def list(
        self,
        scope: Scope,
        *,
        query: str = "",
        state: pb.ThreadState.ValueType = pb.THREAD_STATE_ACTIVE,
        include_archived: bool = False,
        page_size: int = 0,
    ) -> Pages[pb.Thread]:
        """Threads, the latest activity first; with `query` only those whose title or runs hold that text.

        `include_archived` shows both states, whatever `state` says. `page_size`: how many to fetch at a
        time (default 20, at most 200).
        """
        request = rpc.ListThreadsRequest(
            scope=scope.to_message(),
            query=query,
            state=state,
            include_archived=include_archived,
            page_size=page_size,
        )
        return pages(request, rpc.ListThreadsResponse, lambda r: r.threads)

    @listed
    def runs(
        self,
        scope: Scope,
        thread_id: str,
        *,
        newest_first: bool = False,
        view: pb.RunView.ValueType = pb.RUN_VIEW_FULL,
        page_size: int = 0,
    ) -> Pages[pb.Run]:
        """The runs of a thread, oldest first. RUN_VIEW_BASIC cuts input and output to 2 KiB each.

        `page_size`: how many to fetch at a time (default 50, at most 200).
        """
        request = rpc.ListRunsRequest(
            scope=scope.to_message(),
            thread_id=thread_id,
            newest_first=newest_first,
            view=view,
            page_size=page_size,
        )
        return pages(request, rpc.ListRunsResponse, lambda r: r.runs)

    @answered
    def get_run(self, scope: Scope, run_id: str) -> Call[pb.Run]:
        """One run with the whole of its input and output. NotFound where the scope has none of that id."""
        request = rpc.GetRunRequest(scope=scope.to_message(), run_id=run_id)
        return read(request, rpc.GetRunResponse, lambda r: r.run)

    @answered
    def rename(self, scope: Scope, thread_id: str, title: str) -> Call[pb.Thread]:
        """Gives a thread a title of 1 to 200 characters; it keeps its place in the list."""
        request = rpc.RenameThreadRequest(scope=scope.to_message(), thread_id=thread_id, title=title)
        return write(request, rpc.RenameThreadResponse, lambda r: r.thread)

    @answered
    def archive(self, scope: Scope, thread_id: str) -> Call[pb.Thread]:
        """Hides a thread from the list and loses nothing of it; a run recorded into it brings it back."""
        request = rpc.ArchiveThreadRequest(scope=scope.to_message(), thread_id=thread_id)
        return write(request, rpc.ArchiveThreadResponse, lambda r: r.thread)

    @answered
    def unarchive(self, scope: Scope, thread_id: str) -> Call[pb.Thread]:
        """Shows an archived thread again."""
        request = rpc.UnarchiveThreadRequest(scope=scope.to_message(), thread_id=thread_id)
        return write(request, rpc.UnarchiveThreadResponse, lambda r: r.thread)

    @answered
    def delete(self, scope: Scope, thread_id: str) -> Call[int]:
        """Deletes a thread for good, with its runs and all but confirmed facts that was drawn from them.

        Returns how many runs it had. A late `record_run` into it raises Deleted.
        """
        request = rpc.DeleteThreadRequest(scope=scope.to_message(), thread_id=thread_id)
        return write(
            request,
            rpc.DeleteThreadResponse,
            lambda r: r.deleted_run_count,
        )

    @answered
    def delete_run(self, scope: Scope, run_id: str) -> Call[None]:
        """Deletes one run for good, at once from a summary that covered it, which is made anew later."""
        request = rpc.DeleteRunRequest(scope=scope.to_message(), run_id=run_id)
        return write(request, rpc.DeleteRunResponse, nothing)


class RecallCalls:
    """The past runs of a scope, for tools and people; a runner finds recall in its context."""

    @answered
    def search(
        self, scope: Scope, query: str, *, top_k: int = 0, min_score: float = 0.0
    ) -> Call[Sequence[pb.RecallHit]]:
        """Past completed runs that bear on `query`, best first, each with a score from 0 to 1 and a snippet.

        `top_k`: default 3, at most 100. What scores below `min_score` is left out; a context takes what is
        above 0.2.
        """
        request = rpc.SearchRequest(scope=scope.to_message(), query=query, top_k=top_k, min_score=min_score)
        return read(request, rpc.SearchResponse, lambda r: r.hits)


class CoreCalls:
    """What is known of the user: candidates that a model proposed, facts that a person confirmed.

    All of it needs the reviewer's role. `actor` names the person behind the token, for `confirmed_by` (at
    most 64 characters). Whatever a red line forbids raises RedLine.
    """

    @answered
    def list_facts(self, scope: Scope) -> Call[rpc.ListFactsResponse]:
        """The facts, the most recently used first, and the scope's capacity."""
        request = rpc.ListFactsRequest(scope=scope.to_message())
        return read(request, rpc.ListFactsResponse, whole)

    @answered
    def create_fact(self, scope: Scope, text: str, *, actor: str = "") -> Call[rpc.CreateFactResponse]:
        """Writes a fact of 1 to 200 characters; `evicted` is the one that gave way where the scope was
        full.
        """
        request = rpc.CreateFactRequest(scope=scope.to_message(), text=text, actor=actor)
        return write(request, rpc.CreateFactResponse, whole)

    @answered
    def update_fact(self, scope: Scope, fact_id: str, text: str, *, actor: str = "") -> Call[pb.Fact]:
        """Gives a fact another wording."""
        request = rpc.UpdateFactRequest(scope=scope.to_message(), fact_id=fact_id, text=text, actor=actor)
        return write(request, rpc.UpdateFactResponse, lambda r: r.fact)

    @answered
    def delete_fact(self, scope: Scope, fact_id: str, *, actor: str = "") -> Call[None]:
        """Forgets a fact; a model's proposal of the same text is not shown again."""
        request = rpc.DeleteFactRequest(scope=scope.to_message(), fact_id=fact_id, actor=actor)
        return write(request, rpc.DeleteFactResponse, nothing)

    @listed
    def candidates(self, scope: Scope, *, page_size: int = 0) -> Pages[pb.Candidate]:
        """What waits for a person's decision, the most confident first."""
        request = rpc.ListCandidatesRequest(scope=scope.to_message(), page_size=page_size)
        return pages(request, rpc.ListCandidatesResponse, lambda r: r.candidates)

    @answered
    def confirm(
        self, scope: Scope, candidate_id: str, *, text: str = "", actor: str = ""
    ) -> Call[rpc.ConfirmCandidateResponse]:
        """Turns a candidate into a fact, in the person's own wording where `text` is given.

        The answer names the fact that it supersedes and the one that gave way for room, if any.
        """
        request = rpc.ConfirmCandidateRequest(
            scope=scope.to_message(), candidate_id=candidate_id, text=text, actor=actor
        )
        return write(request, rpc.ConfirmCandidateResponse, whole)

    @answered
    def reject(self, scope: Scope, candidate_id: str, *, actor: str = "") -> Call[None]:
        """Drops a candidate; the same text is not proposed again."""
        request = rpc.RejectCandidateRequest(scope=scope.to_message(), candidate_id=candidate_id, actor=actor)
        return write(request, rpc.RejectCandidateResponse, nothing)


class OpsCalls:
    """Cost, background work, notices, and whole scopes. Needs a reviewer's or an admin's token."""

    @answered
    def usage(
        self,
        scope: Scope,
        *,
        thread_id: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        group_by: rpc.UsageGroup.ValueType = rpc.USAGE_GROUP_UNSPECIFIED,
        time_zone: str = "",
    ) -> Call[rpc.GetUsageResponse]:
        """What the runs took, what memory itself took, and the sum; in buckets too where `group_by` is given.

        Times know their zone; the span includes `start_time` and leaves out `end_time`.
        """
        request = rpc.GetUsageRequest(
            scope=scope.to_message(),
            thread_id=thread_id,
            start_time=timestamp(start_time),
            end_time=timestamp(end_time),
            group_by=group_by,
            time_zone=time_zone,
        )
        return read(request, rpc.GetUsageResponse, whole)

    @listed
    def memory_ops(
        self,
        scope: Scope,
        *,
        thread_id: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = 0,
    ) -> Pages[pb.MemoryOp]:
        """The model calls that memory made for itself, newest first, in a span of time as in `usage`."""
        request = rpc.ListMemoryOpsRequest(
            scope=scope.to_message(),
            thread_id=thread_id,
            start_time=timestamp(start_time),
            end_time=timestamp(end_time),
            page_size=page_size,
        )
        return pages(request, rpc.ListMemoryOpsResponse, lambda r: r.memory_ops)

    @answered
    def worker_status(self, scope: Scope | None = None) -> Call[rpc.GetWorkerStatusResponse]:
        """What the background worker owes this scope and could not do; without one, of the whole daemon."""
        request = rpc.GetWorkerStatusRequest(scope=scope.to_message() if scope else None)
        return read(request, rpc.GetWorkerStatusResponse, whole)

    @answered
    def notices(self, scope: Scope) -> Call[Sequence[pb.Notice]]:
        """What a user interface should say once and has not yet, oldest first."""
        request = rpc.ListNoticesRequest(scope=scope.to_message())
        return read(request, rpc.ListNoticesResponse, lambda r: r.notices)

    @answered
    def acknowledge(self, scope: Scope, notice_id: str) -> Call[None]:
        """Marks a notice as said."""
        request = rpc.AcknowledgeNoticeRequest(scope=scope.to_message(), notice_id=notice_id)
        return write(request, rpc.AcknowledgeNoticeResponse, nothing)

    @listed
    def scopes(self, *, page_size: int = 0) -> Pages[Scope]:
        """The scopes of the token's tenants that hold anything."""
        request = rpc.ListScopesRequest(page_size=page_size)
        return pages(request, rpc.ListScopesResponse, lambda r: [Scope.from_message(each) for each in r.scopes])

    @listed
    def export_scope(self, scope: Scope) -> Download[bytes]:
        """Everything that a scope holds, as JSON lines in UTF-8; each chunk is some whole lines.

        An error in the middle raises; what had come until then is not a whole export.
        """
        request = rpc.ExportScopeRequest(scope=scope.to_message())
        return Download(method_of(request), request, lambda data: rpc.ExportScopeResponse.FromString(data).data)

    @answered
    def import_scope(self, scope: Scope, chunks: Iterable[bytes]) -> Call[rpc.ImportScopeResponse]:
        """Takes in an export, all of it or nothing: a file opened as "rb" will do, or any other pieces of it.

        What a red line forbids is left out and counted. Doing it again adds nothing. ImportInvalid names a
        bad line.
        """
        method = method_of(rpc.ImportScopeRequest())
        decode = rpc.ImportScopeResponse.FromString
        return Call(method, import_requests(scope, chunks), decode, Kind.TRANSFER)

    @answered
    def delete_scope(self, scope: Scope) -> Call[rpc.DeleteScopeResponse]:
        """Forgets a scope entirely and says how much that was."""
        request = rpc.DeleteScopeRequest(scope=scope.to_message())
        return call(Kind.TRANSFER, request, rpc.DeleteScopeResponse, whole)


def import_requests(scope: Scope, chunks: Iterable[bytes]) -> Iterator[rpc.ImportScopeRequest]:
    """An import as messages of at most 1 MiB; the first names the scope and is sent even without data."""
    held = bytearray()
    request = rpc.ImportScopeRequest(scope=scope.to_message())
    for chunk in chunks:
        held += chunk
        while len(held) >= IMPORT_MESSAGE_BYTES:
            request.data = bytes(held[:IMPORT_MESSAGE_BYTES])
            del held[:IMPORT_MESSAGE_BYTES]
            yield request
            request = rpc.ImportScopeRequest()
    if held or request.HasField("scope"):
        request.data = bytes(held)
        yield request


class Threads(ThreadCalls, Service):
    """`Memory.threads`."""


class AsyncThreads(ThreadCalls, AsyncService):
    """`AsyncMemory.threads`."""


class Recall(RecallCalls, Service):
    """`Memory.recall`."""


class AsyncRecall(RecallCalls, AsyncService):
    """`AsyncMemory.recall`."""


class Core(CoreCalls, Service):
    """`Memory.core`."""


class AsyncCore(CoreCalls, AsyncService):
    """`AsyncMemory.core`."""


class Ops(OpsCalls, Service):
    """`Memory.ops`."""


class AsyncOps(OpsCalls, AsyncService):
    """`AsyncMemory.ops`."""
