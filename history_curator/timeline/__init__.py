from history_curator.units import Pairing, Unit, flatten, pair
