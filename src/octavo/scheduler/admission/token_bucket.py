"""The token bucket: so much a second, and a burst on top. Knows no clock: `now` is given."""

from __future__ import annotations


class TokenBucket:
    """Starts full. What `take` grants in any span of time is at most burst + rate x span, when
    nothing is granted that is not `covered`. Source: Turner, "New directions in communications",
    IEEE Communications Magazine 24(10), 1986."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        assert rate > 0
        assert burst > 0
        self.rate = rate
        self.burst = burst
        self._level = burst
        self._as_of = now

    def level(self, now: float) -> float:
        """What may be taken; negative while there is a debt. A clock set back adds nothing."""
        self._level = min(self.burst, self._level + max(0.0, now - self._as_of) * self.rate)
        self._as_of = now
        return self._level

    def seconds_until(self, amount: float, now: float) -> float:
        """How long until `amount` is there, 0 if it is; more than the burst never comes, so that
        who wants more waits for a full bucket."""
        return max(0.0, min(amount, self.burst) - self.level(now)) / self.rate

    def covers(self, amount: float, now: float) -> bool:
        return self.level(now) >= min(amount, self.burst)

    def take(self, amount: float, now: float) -> None:
        """Take it, covered or not: what is not becomes a debt that the rate pays off."""
        self._level = self.level(now) - amount

    def give_back(self, amount: float, now: float) -> None:
        """Of what was taken. Never more than full."""
        self._level = min(self.burst, self.level(now) + amount)
