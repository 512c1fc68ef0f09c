import pytest
from gaitway_agents.language.kl_control import KLControlConfig, KLController


def test_a_fixed_coefficient_stays():
    controller = KLController(KLControlConfig(coefficient=0.05))
    controller.update(100.0, 512)
    assert controller.coefficient == 0.05


@pytest.mark.parametrize(
    ("kl", "factor"),
    [
        (6.0, 1.0),
        (6.6, 1.0 + 0.1 * 256 / 10_000),  # a tenth too far
        (60.0, 1.0 + 0.2 * 256 / 10_000),  # the error is bounded
        (0.0, 1.0 - 0.2 * 256 / 10_000),
    ],
)
def test_the_adaptive_controller_is_that_of_ziegler_et_al(kl, factor):
    controller = KLController(KLControlConfig(coefficient=0.1, target=6.0, horizon=10_000))
    controller.update(kl, 256)
    assert controller.coefficient == pytest.approx(0.1 * factor, rel=1e-12)


def test_the_adaptive_controller_finds_the_coefficient_of_its_target():
    controller = KLController(KLControlConfig(coefficient=1.0, target=5.0, horizon=1000))
    for _ in range(200):
        controller.update(2.0 / controller.coefficient, 100)
    assert controller.coefficient == pytest.approx(0.4, rel=1e-3)


def test_a_controller_goes_on_where_it_was():
    first, second = (KLController(KLControlConfig(target=6.0)) for _ in range(2))
    first.update(60.0, 256)
    second.load_state_dict(first.state_dict())
    assert second.coefficient == first.coefficient != 0.05


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coefficient": 0.0}, "coefficient "),
        ({"estimator": "k4"}, "estimator "),
        ({"target": 0.0}, "target "),
        ({"horizon": 0}, "horizon "),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        KLControlConfig(**settings)
