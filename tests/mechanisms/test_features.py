"""Feature maps: by name, checked, and computed from public data only."""

import numpy as np
import pytest
from skimage.feature import hog as scikit_hog

import accountant as ac
from mechanisms.features import FEATURES, feature_map, hog, standardise

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(3.0, 5.0, size=(50, 4)).astype(np.float32)
RECORDS = RNG.normal(size=(20, 4)).astype(np.float32)
IMAGES = RNG.random((6, 64)).astype(np.float32)


def test_raw_features_are_the_records():
    assert np.array_equal(feature_map("raw", PUBLIC)(RECORDS), RECORDS)


def test_standardised_public_columns():
    scaled = feature_map("standardised", PUBLIC)(PUBLIC)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-6)


def test_standardising_is_the_same_for_all_records():
    """The features of a row do not depend on other rows."""
    describe = standardise(PUBLIC)
    expected = (RECORDS - PUBLIC.mean(axis=0, dtype=float)) / PUBLIC.std(axis=0, dtype=float)
    np.testing.assert_allclose(describe(RECORDS), expected, rtol=1e-6)
    assert np.array_equal(describe(RECORDS[:1]), describe(RECORDS)[:1])


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, -7.7, 1e6])
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_a_constant_public_column_is_only_centred(value, rows):
    public = np.full((rows, 2), value, np.float32)
    private = public[:1] + np.float32([[0.0, 0.5]])
    np.testing.assert_allclose(standardise(public)(private), private - public[:1], atol=1e-12)


def test_a_column_that_is_hardly_spread_is_refused_where_it_would_overflow():
    public = np.float32([[0.0], [1e-30]])
    with pytest.raises(ac.ParameterError, match=r"features\[0, 0\] = 2e\+30 is out of range"):
        standardise(public)(np.float32([[1.0]]))


def test_no_public_points():
    with pytest.raises(ac.ParameterError, match="public holds no points; accepted: at least one"):
        feature_map("standardised", np.empty((0, 4)))


@pytest.mark.parametrize("images", [(8, 8), (8, 8, 3), (16, 8), (28, 28), (32, 32, 3)])
def test_hog_describes_each_image_by_itself(images):
    records = RNG.random((3, int(np.prod(images)))).astype(np.float32)
    features = feature_map("hog", PUBLIC, images)(records)
    assert features.dtype == np.float32
    for record, row in zip(records, features, strict=True):
        cell = max(min(images[:2]) // 8, 2)
        channels = -1 if len(images) == 3 else None
        image = record.reshape(images)
        expected = scikit_hog(image, 9, (cell, cell), (2, 2), channel_axis=channels)
        np.testing.assert_allclose(row, expected, rtol=1e-6)


def test_hog_of_a_brighter_image_is_the_same():
    np.testing.assert_allclose(hog((8, 8))(IMAGES), hog((8, 8))(IMAGES + 5), atol=1e-4)


def test_hog_without_images():
    with pytest.raises(ac.ParameterError, match="features = 'hog' needs images"):
        feature_map("hog", IMAGES)


def test_presets_of_hog():
    """Zhu et al. 2020: 8 directions, cells of 8 pixels: 72 numbers for an image of MNIST."""
    image = np.random.default_rng(0).random((1, 784)).astype(np.float32)
    sizes = {name: feature_map(name, image, (28, 28))(image).shape[1] for name in ("hog", "hog-coarse", "hog-people")}
    assert sizes == {"hog": 2304, "hog-coarse": 72, "hog-people": 144}
    expected = scikit_hog(image.reshape(28, 28), 8, (8, 8), (1, 1))
    np.testing.assert_allclose(feature_map("hog-coarse", image, (28, 28))(image)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("images", [(64,), (7, 9), (8, 4, 2), (2, 4, 4, 2), ()])
def test_shapes_that_are_no_images(images):
    with pytest.raises(ac.ParameterError, match="at least 8 by 8"):
        hog(images)


@pytest.mark.parametrize("images", [(8, 9), (8, 8, 3)])
def test_images_of_another_size(images):
    with pytest.raises(ac.ParameterError, match="accepted: a shape of the 64 columns"):
        hog(images)(IMAGES)


@pytest.mark.parametrize("features", ["HOG", "", 3, None])
def test_unknown_names(features):
    with pytest.raises(ac.ParameterError, match="accepted: 'raw', 'standardised', 'hog', "):
        feature_map(features, PUBLIC)


def test_a_callable_gets_the_records_and_is_converted():
    describe = feature_map(lambda records: (2 * records).astype(float).tolist(), PUBLIC)
    assert np.array_equal(describe(RECORDS), 2 * RECORDS)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda records: records[1:], "features have 19 rows; accepted: 20, one for each record"),
        (lambda records: records[:, 0], r"features has shape \(20,\)"),
        (lambda records: records[:, :0], r"features has shape \(20, 0\)"),
        (lambda records: np.where(records == records[7], np.nan, records), r"features\[7, 0\] = nan is out of range"),
        (lambda records: records * np.inf, r"features\[0, 0\] = -inf is out of range"),
        (lambda records: None, "features"),
        (lambda records: [["a"]] * 20, "features is not a matrix of numbers"),
    ],
)
def test_a_callable_that_returns_something_else(wrong, words):
    with pytest.raises(ac.ParameterError, match=words):
        feature_map(wrong, PUBLIC)(RECORDS)


def test_every_name_works():
    for name in FEATURES:
        larger = np.tile(IMAGES.reshape(-1, 8, 8), (1, 2, 2)).reshape(len(IMAGES), 256)
        assert len(feature_map(name, larger, (16, 16))(larger)) == len(IMAGES)
