"""Counts of pairs: read, kept, dropped and why."""

from dataclasses import dataclass, field

from regard.plural import counted


@dataclass
class Stats:
    """Every pair read is either kept or counted in `dropped`."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Reason -> count."""
    first: dict[str, str] = field(default_factory=dict)
    """Reason -> "file:line" of the first one."""
    empty_files: list[str] = field(default_factory=list)

    def drop(self, reason: str, where: str, count: int = 1) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count
        self.first.setdefault(reason, where)

    def lines(self) -> list[str]:
        """A summary to print."""
        head = f"{counted(self.read, 'pair')} read, {self.kept:,} kept"
        if self.dropped:
            head += f", {sum(self.dropped.values()):,} dropped:"
        width = max((len(f"{count:,}") for count in self.dropped.values()), default=0)
        order = sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))
        return [
            head,
            *(f"  {count:>{width},} {reason} (first: {self.first[reason]})" for reason, count in order),
            *(f"  {path} is empty" for path in self.empty_files),
        ]
