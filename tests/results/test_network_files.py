"""Files of measured signals under Network DP have no agent's estimates in all rounds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import veilsum as vs
from veilsum.privacy import NetworkDP, SignalDP


@pytest.mark.parametrize(("privacy", "kept"), [(NetworkDP(1.0), False), (SignalDP(1.0), True)])
@pytest.mark.filterwarnings("ignore::veilsum.errors.PrivacyWarning")
def test_estimates_of_neighbours_stay_out_of_files(
    tmp_path: Path, privacy: Any, kept: bool
) -> None:
    family = vs.families.Normal(1.0, bounds=(0.0, 1.0))
    readings = np.linspace(0.1, 0.9, 35).reshape(7, 5)
    found = vs.estimate(
        readings, "ring:7", family=family, privacy=privacy, algorithm="learn-network", rounds=5
    ).result
    found.to_netcdf(tmp_path / "results.nc")
    with xr.open_dataset(tmp_path / "results.nc", engine="scipy") as data:
        assert ("private" in data) is kept
        assert "mean" in data
        assert ("left_out" in data.attrs) is not kept
    assert "private" in found.data
