"""Selections in which nothing can be recommended with confidence."""

from mixnorm.montage.caution import NOT_SURE

CAUTION = (
    "The interval of the best montage (0.410 … 0.820) holds 0.5: these trials do not show that any electrode helps."
)


def unsure(found, reason=None):
    """As ``mixnorm select`` says it; the reason, unless given, is that of the selection."""
    chosen = found["recommended"]
    chosen |= {"reason": f"{NOT_SURE}. {reason or chosen['reason']}", "caution": CAUTION}
    n = len(found["montages"])
    found["curves"][0] |= {"low": [0.41] * n, "high": [0.94] * n}
    for montage in found["montages"]:
        montage |= {"low": 0.41, "high": 0.94}
    return found
