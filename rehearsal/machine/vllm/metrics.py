"""Prometheus text under vLLM's own metric names."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0)


@dataclass
class Histogram:
    """Counts by upper bound, in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one value."""
        self.counts[sum(1 for bound in BUCKETS if seconds > bound)] += 1
        self.total += seconds


@dataclass
class Metrics:
    """What /metrics shows for one model. Safe from several threads."""

    model: str
    running: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    first_token: Histogram = field(default_factory=Histogram)
    between_tokens: Histogram = field(default_factory=Histogram)
    whole: Histogram = field(default_factory=Histogram)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def text(self) -> str:
        """The page."""
        label = f'engine="0",model_name="{self.model}"'
        lines: list[str] = []

        def plain(name: str, kind: str, value: float, extra: str = "") -> None:
            lines.append(f"# TYPE vllm:{name} {kind}")
            lines.append(f"vllm:{name}{{{label}{extra}}} {float(value)}")

        with self.lock:
            plain("num_requests_running", "gauge", self.running)
            plain("num_requests_waiting", "gauge", 0)
            plain("kv_cache_usage_perc", "gauge", min(1.0, self.running / 256))
            plain("num_preemptions_total", "counter", 0)
            plain("prompt_tokens_total", "counter", self.prompt_tokens)
            plain("generation_tokens_total", "counter", self.generation_tokens)
            plain("prefix_cache_queries_total", "counter", self.prompt_tokens)
            plain("prefix_cache_hits_total", "counter", 0)
            lines.append("# TYPE vllm:request_success_total counter")
            for reason in ("stop", "length", "abort"):
                lines.append(f'vllm:request_success_total{{{label},finished_reason="{reason}"}} {float(self.finished[reason])}')
            for name, histogram in (
                ("time_to_first_token_seconds", self.first_token),
                ("inter_token_latency_seconds", self.between_tokens),
                ("e2e_request_latency_seconds", self.whole),
            ):
                lines.extend(_histogram(name, histogram, label))
        return "\n".join(lines) + "\n"


def _histogram(name: str, histogram: Histogram, label: str) -> list[str]:
    lines, so_far = [f"# TYPE vllm:{name} histogram"], 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), histogram.counts, strict=True):
        so_far += count
        lines.append(f'vllm:{name}_bucket{{{label},le="{bound}"}} {float(so_far)}')
    return [*lines, f"vllm:{name}_sum{{{label}}} {histogram.total}", f"vllm:{name}_count{{{label}}} {float(so_far)}"]
