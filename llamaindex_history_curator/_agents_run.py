"""What LlamaIndex loses in the run of an agent, whichever workflow runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.memory.chat_memory_buffer import DEFAULT_TOKEN_LIMIT_RATIO
from llama_index.core.memory.types import DEFAULT_CHAT_STORE_KEY
from llama_index.core.storage.chat_store import SimpleChatStore

from llamaindex_history_curator._format import copy_message

if TYPE_CHECKING:
    from llamaindex_history_curator._agents import CuratedAgent

_STATED = "history_curator_stated"


async def use_memory(ctx: Any, ev: Any, agent: CuratedAgent) -> None:
    """Put the memory of a run into its context: the one that is passed, whatever was there.

    LlamaIndex looks at a memory only in a context that has none yet. Where there is none at all
    the agent makes one.
    """
    given = ev.get("memory", default=None)
    if given is None and await ctx.store.get("memory", default=None) is None:
        given = agent.new_memory()
    if given is not None:
        await ctx.store.set("memory", given)


class Run:
    """One step of a run, from before the model is asked until its answer is noted.

    Args:
        agent: takes the step.
        ctx: the context of the run.
        memory: what the workflow takes for the memory of the run.
    """

    def __init__(self, agent: CuratedAgent, ctx: Any, memory: Any) -> None:
        self.agent = agent
        self.ctx = ctx
        self.memory = memory

    async def begin(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return what the step is asked from."""
        if await self._exchange_default():
            messages = list(map(copy_message, messages))
            await self._unsay_state()
        return await self._with_state(messages)

    async def end(self) -> None:
        """Keep the steps of a run that is about to be stopped early.

        LlamaIndex asks for a last answer from the memory, which has none of them, and forgets
        them: they were said and done.
        """
        store = self.ctx.store
        if await store.get("early_stopping_method", default="force") != "generate":
            return
        number = await store.get("num_iterations", default=0)
        if number + 1 >= await store.get("max_iterations", default=number + 2):
            await self.agent._remember_run(self.ctx, self.memory)

    async def _exchange_default(self) -> bool:
        """In a workflow of several agents, take the place of the memory nobody asked for.

        The new one is over the same store, so that whoever holds the other sees the same record.
        """
        memory, store = self.memory, self.ctx.store
        window = self.agent.llm.metadata.context_window
        if (
            type(memory) is ChatMemoryBuffer
            and memory.token_limit == int(window * DEFAULT_TOKEN_LIMIT_RATIO)
            and memory.chat_store_key == DEFAULT_CHAT_STORE_KEY
            and type(memory.chat_store) is SimpleChatStore
            and await store.get("agents", default=None)
        ):
            self.memory = self.agent.new_memory()
            self.memory.chat_store = memory.chat_store
            await store.set("memory", self.memory)
            return True
        return False

    async def _unsay_state(self) -> None:
        """Take out of the record what LlamaIndex wrote into the question by way of its memory."""
        stated = await self.ctx.store.get("formatted_input_with_state", default=False)
        asked = await self.ctx.store.get("user_msg_str", default=None)
        record = self.memory.chat_store.get_messages(self.memory.chat_store_key)
        if stated and record and record[-1].role.value == "user" and len(record[-1].blocks) == 1:
            record[-1].blocks = [TextBlock(text=asked)]

    async def _with_state(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Show the state in the question at every step, as it was when the run began.

        LlamaIndex writes it into the message it got from the memory, at the first step only, and
        relies on a memory that hands out its own objects, and so keeps the state as if it had
        been said. The state of the beginning stays, because what was sent is not changed.
        """
        store, out = self.ctx.store, list(messages)
        if not await store.get("state", default=None) or not out:
            return out
        if await store.get("num_iterations", default=0) == 0:
            texts = _texts(out[-1])
            if out[-1].role.value == "user" and texts:
                await store.set(_STATED, texts[-1].text)
            return out
        asked = await store.get("user_msg_str", default=None)
        stated = await store.get(_STATED, default=None)
        for place in range(len(out) - 1, -1, -1):
            texts = _texts(out[place])
            if out[place].role.value != "user" or not texts or stated is None:
                continue
            if "\n".join(block.text for block in texts) == asked:
                out[place] = copy_message(out[place])
                _texts(out[place])[-1].text = stated
                break
        return out


def _texts(message: ChatMessage) -> list[TextBlock]:
    return [block for block in message.blocks if isinstance(block, TextBlock)]
