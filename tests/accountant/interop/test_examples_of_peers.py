"""The examples that peers print in their README files and scripts: ours cost no more, and both intervals intersect."""

import numpy as np
import pytest

import accountant as ac


def steps(count, sigma, rate):
    return count * ac.PoissonSubsampled(ac.Gaussian(sigma), rate)


@pytest.mark.parametrize(("sigma", "epochs", "printed"), [(1.3, 15, 1.19), (1.1, 60, 3.01), (0.7, 45, 7.10)])
def test_digits_of_tensorflow_privacy(sigma, epochs, printed):
    """60000 records in batches of 256 at delta 1e-5: their table is the classic conversion's, to its two digits."""
    run = steps(epochs * 60000 // 256, sigma, 256 / 60000)
    assert ac.epsilon(run, 1e-5, conversion="classic").epsilon == pytest.approx(printed, abs=0.005)
    assert ac.epsilon(run, 1e-5, method="tight").epsilon < 0.8 * printed


def test_basic_example_of_dp_accounting():
    """40 releases with Laplace noise 3, and one with Gaussian noise 5, at epsilon 10."""
    distributions = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    laplace = distributions.from_laplace_mechanism(3, value_discretization_interval=1e-3).self_compose(40)
    both = laplace.compose(distributions.from_gaussian_mechanism(5, value_discretization_interval=1e-3))
    for run, theirs in ((40 * ac.Laplace(3.0), laplace), (40 * ac.Laplace(3.0) + ac.Gaussian(5.0), both)):
        ours = ac.delta(run, 10.0, method="tight", tolerance=1e-4)
        assert 0.999 * theirs.get_delta_for_epsilon(10) < ours.lower < ours.delta < theirs.get_delta_for_epsilon(10)


def test_three_mechanisms_of_prv_accountant():
    prv = pytest.importorskip("prv_accountant")
    kinds = pytest.importorskip("prv_accountant.privacy_random_variables")
    theirs = prv.PRVAccountant(
        prvs=[
            kinds.PoissonSubsampledGaussianMechanism(noise_multiplier=0.8, sampling_probability=5e-3),
            kinds.GaussianMechanism(noise_multiplier=8.0),
            kinds.LaplaceMechanism(mu=0.1),
        ],
        max_self_compositions=[1000] * 3,
        eps_error=0.1,
        delta_error=1e-10,
    )
    low, _, high = theirs.compute_epsilon(delta=1e-6, num_self_compositions=[100, 200, 100])
    run = steps(100, 0.8, 5e-3) + 200 * ac.Gaussian(8.0) + 100 * ac.Laplace(10.0)
    ours = ac.epsilon(run, 1e-6, method="tight")
    assert low < ours.lower < ours.epsilon < high
    assert ours.epsilon - ours.lower < high - low


def test_dp_sgd_of_gdpnum():
    """Its README prints 1.56856 and its version 1.56850, both over all error rates of a table of its own."""
    gdpnum = pytest.importorskip("gdpnum")
    theirs, _ = gdpnum.dpsgd.get_mu_and_regret_for_dpsgd(noise_multiplier=9.4, sample_rate=0.328, num_steps=2000)
    ours = ac.gaussian_dp(steps(2000, 9.4, 0.328), 1e-6)
    assert 0.995 * theirs < ours.lower < ours.upper < theirs


@pytest.mark.audit
def test_attack_risk_of_riskcal():
    """A Gaussian release, one beside a Laplace release, 10^4 steps at rate 0.002; noise for an advantage of a tenth."""
    analysis = pytest.importorskip("riskcal.analysis")
    distributions = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    one = distributions.from_gaussian_mechanism(1.0)
    two = one.compose(distributions.from_laplace_mechanism(0.5))
    for run, theirs, fpr in ((1 * ac.Gaussian(1.0), one, 0.01), (ac.Gaussian(1.0) + ac.Laplace(0.5), two, 0.1)):
        ours = ac.advantage(run, tolerance=1e-4)
        assert ours.lower <= analysis.get_advantage_from_pld(theirs) * (1 + 1e-6)
        assert ours.upper <= analysis.get_advantage_from_pld(theirs) * (1 + 1e-4)
        rates = ac.true_positive_rate(run, [fpr], tolerance=1e-4)
        assert rates.lower == pytest.approx([1 - float(analysis.get_beta_from_pld(theirs, alpha=fpr))], rel=1e-3)
    rates = ac.true_positive_rate(steps(10_000, 0.5, 0.002), np.array([0.01, 0.05, 0.1]))
    assert (rates.upper - rates.lower <= 0.01 * rates.upper).all()
    sigma = ac.calibrate(lambda s: steps(10_000, s, 0.002), target="advantage", value=0.1, tolerance=1e-3)
    assert ac.advantage(steps(10_000, sigma, 0.002), tolerance=1e-3).upper <= 0.1
    assert ac.advantage(steps(10_000, 0.99 * sigma, 0.002), tolerance=1e-3).lower > 0.1
