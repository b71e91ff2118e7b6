"""Selections in which no montage can be recommended with confidence."""

from mixnorm.montage.reading import selection_from_json

HEADLINE = "No montage can be recommended with confidence"
CAUTION = (
    "The 95 % interval of the best montage (0.410 … 0.820) includes chance level (0.5): these trials do not show that "
    "any electrode helps; record more."
)


def unsure(found, n_asked=None):
    """The document with a best montage that could be chance; ``n_asked``: electrodes that were asked for."""
    found["recommended"] |= {
        "verdict": "unsure",
        "n_asked": n_asked,
        "n_sensors": n_asked or found["recommended"]["n_sensors"],
        "chance_level": {"montage": "best", "low": 0.41, "high": 0.82},
    }
    n = len(found["montages"])
    found["curves"][0] |= {"low": [0.41] * n, "high": [0.94] * n}
    for montage in found["montages"]:
        montage |= {"low": 0.41, "high": 0.94}
    return selection_from_json(found).to_json()
