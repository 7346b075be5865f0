"""A chat engine over a curated memory: the record stays whole, the view stays small.

Run: python examples/llamaindex_memory.py
"""

from __future__ import annotations

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM

from llamaindex_history_curator import CuratedMemory


def main() -> None:
    """Chat for forty turns and show what the model still sees."""
    llm = MockLLM(max_tokens=60)
    memory = CuratedMemory.from_defaults(token_limit=600)
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt="Be brief.")
    for turn in range(40):
        engine.chat(f"Question {turn}: why is the sky blue, and since when?")
    print(f"record: {len(memory.get_all())} messages, view: {len(memory.get())} messages")

    saved = memory.to_json()
    restored = CuratedMemory.from_json(saved)
    same = [m.content for m in restored.get()] == [m.content for m in memory.get()]
    print(f"saved as {len(saved):,} characters of JSON; same view after loading: {same}")


if __name__ == "__main__":
    main()
