import pytest

import accountant as ac
from accountant.cli import main
from accountant.interop.deployments import make_record, reprice
from accountant.plan import parse_plan

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")

TEXT = {"type": "string", "minLength": 1}
NUMBER = {"type": "number"}


def mapping(required, **optional):
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**required, **optional},
    }


def one_of(*values):
    return {"enum": list(values)}


SCHEMA = mapping(
    {
        "url_slug": {"type": "string", "pattern": "^[a-z0-9-]+$"},
        "status": one_of("Draft", "Pending", "Approved"),
        "tier": one_of(1, 2, 3),
        "deployment": mapping(
            {
                "basic": mapping(
                    {
                        "name": TEXT,
                        "data_curators": {
                            "type": "array",
                            "minItems": 1,
                            "items": mapping(
                                {
                                    "data_curator_name": TEXT,
                                    "data_curator_type": one_of("Government", "Industry", "Nonprofit"),
                                }
                            ),
                        },
                        "intended_use": TEXT,
                        "data_product_type": one_of(
                            "Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "SQL queries"
                        ),
                        "data_product_region": TEXT,
                        "data_product_sector": one_of("Technology", "Healthcare", "Education", "Government", "Energy"),
                        "description": TEXT,
                        "publication_date": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
                    }
                ),
                "dp_variant": mapping(
                    {
                        "variant_name": one_of(
                            "Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"
                        ),
                        "data_domain": TEXT,
                        "unprotected_quantities": TEXT,
                    }
                ),
                "privacy_loss": mapping(
                    {
                        "privacy_unit": TEXT,
                        "privacy_parameters": mapping({}, epsilon=NUMBER, delta=NUMBER, rho=NUMBER),
                    },
                    privacy_unit_details=TEXT,
                    privacy_parameters_details=TEXT,
                ),
                "deployment_model": mapping(
                    {"model_name": one_of("Local", "Central", "Shuffle", "Federated")},
                    actors=TEXT,
                    release_type=one_of("One release", "Many releases"),
                    data_source_type=one_of("Static", "Dynamic"),
                    access_type=one_of("Interactive", "Non-interactive"),
                ),
                "accounting": mapping({"post_processing": TEXT, "composition": TEXT}),
                "implementation": mapping(
                    {
                        "preprocessing_and_hyperparameter_tuning": TEXT,
                        "mechanisms": TEXT,
                        "justification": TEXT,
                    }
                ),
                "administrative": mapping({"sources": TEXT, "registry_authors": {"type": "array", "items": TEXT}}),
            }
        ),
    }
)
"""The keys and values of the registry's records of autumn 2026, every one that a record may leave out included."""

PLAN = """
delta = 1e-10
[[release]]
event = "discrete-gaussian"
sigma = 5.5
count = 80
[[release]]
name = "votes"
event = "laplace"
scale = 20.0
sampling_rate = 0.1
"""


def parameters(record):
    return record["deployment"]["privacy_loss"]["privacy_parameters"]


@pytest.mark.each_run(1)
@pytest.mark.parametrize("plan", ["private-knn-mnist", PLAN, 'delta = 0.0\n[[release]]\nevent = "laplace"\nscale = 2'])
def test_records_of_plans_are_valid(plan, tmp_path, capsys):
    source = plan
    if "\n" in plan:
        source = str(tmp_path / "plan.toml")
        (tmp_path / "plan.toml").write_text(plan)
    assert main(["registry", source, "--name", "A release, 2026", "--unit", "person", "--date", "2026-01-31"]) == 0
    record = yaml.safe_load(capsys.readouterr().out)
    jsonschema.validate(record, SCHEMA)
    loaded = ac.load_plan(source)
    truth = ac.epsilon(loaded.run, loaded.delta, method="auto")
    assert truth.lower is None or truth.lower <= parameters(record)["epsilon"]
    assert record["url_slug"] == "a-release-2026"
    jsonschema.validate(make_record(loaded, truth, {"name": "Größe"}), SCHEMA)
    assert record["deployment"]["privacy_loss"]["privacy_unit"] == "Person-level"


def test_variant_follows_from_the_run():
    concentrated = 'delta = 1e-6\n[[release]]\nevent = "zero-concentrated-dp"\nrho = 0.1\ncount = 3\n'
    both = concentrated + '[[release]]\nevent = "gaussian"\nsigma = 2.0\n'
    for text, variant, rho in (
        (concentrated, "Zero-concentrated DP", 0.3),
        (both, "Zero-concentrated DP", 0.425),
        (PLAN, "Approximate DP", None),
    ):
        plan = parse_plan("plan", text)
        record = make_record(plan, ac.epsilon(plan.run, plan.delta), {})
        assert record["deployment"]["dp_variant"]["variant_name"] == variant
        assert parameters(record).get("rho") == (None if rho is None else pytest.approx(rho, rel=1e-5))
        assert rho is None or parameters(record)["rho"] >= rho


STATED = [
    # file, rho, delta, epsilon that the record states for them, in two digits after the point
    ("redistricting, persons", 2.56, 1e-10, 17.14),
    ("redistricting, housing units", 0.07, 1e-10, 2.47),
    ("demographic and housing, persons", 4.96, 1e-10, 26.34),
    ("demographic and housing, units", 7.70, 1e-10, 34.33),
    ("mental-health usage", 1.782696, 1e-5, 10.0),
]
WITHOUT_EPSILON = [2.63, 15.29, 2.515, 17.79, 19.776, 12.058, 0.015]


@pytest.mark.parametrize(("name", "rho", "delta", "epsilon"), STATED)
def test_stated_budgets_are_priced_again(name, rho, delta, epsilon):
    """No more than 0.15 % above what curators rounded; a Gaussian of the same rho, which is rho-zCDP, is below."""
    record = {"deployment": {"basic": {"name": name}}}
    record["deployment"]["privacy_loss"] = {"privacy_parameters": {"rho": rho, "delta": delta, "epsilon": epsilon}}
    (found,) = reprice(record)
    assert (found.name, found.rho, found.delta, found.stated) == (name, rho, delta, epsilon)
    assert found.price.epsilon <= epsilon * 1.0015
    assert found.price.epsilon >= ac.epsilon(ac.GaussianDP((2 * rho) ** 0.5), delta, method="tight").epsilon


@pytest.mark.each_run(5)
@pytest.mark.parametrize("rho", WITHOUT_EPSILON)
@pytest.mark.parametrize("layout", ["basic", "product", None])
def test_records_of_all_layouts_are_read(rho, layout, tmp_path, capsys):
    name = {"name": "a deployment"}
    record = {
        "deployment": {**({layout: name} if layout else name), "privacy_loss": {"privacy_parameters": {"rho": rho}}}
    }
    path = tmp_path / "record.yaml"
    path.write_text(yaml.safe_dump(record))
    assert main(["registry", str(path)]) == 2
    assert "accepted: --delta" in capsys.readouterr().err
    assert main(["registry", str(path), "--delta", "1e-10", "--json"]) == 0
    priced = yaml.safe_load(capsys.readouterr().out)
    assert priced["epsilon"] == ac.epsilon(ac.ZeroConcentratedDP(rho), 1e-10, conversion="optimal").epsilon


@pytest.mark.parametrize("delta", ["1e-7", "1E-7", "1.0e-7", ".1e-6", "+1e-7"])
def test_floats_of_later_versions_of_yaml_are_read(delta, tmp_path, capsys):
    """PyYAML takes 1e-7 for text."""
    path = tmp_path / "record.yaml"
    stated = f"{{rho: 15e-3, delta: {delta}, epsilon: 1e0}}"
    path.write_text(f"deployment: {{privacy_loss: {{privacy_parameters: {stated}}}}}")
    assert main(["registry", str(path), "--json"]) == 0
    priced = yaml.safe_load(capsys.readouterr().out)
    assert priced["epsilon"] == ac.epsilon(ac.ZeroConcentratedDP(0.015), 1e-7, conversion="optimal").epsilon
    path.write_text("deployment: {privacy_loss: {privacy_parameters: {rho: 0.1, delta: 1e-7x}}}")
    assert main(["registry", str(path)]) == 2
    assert "delta = '1e-7x' is not a real number; accepted: (0, 1)" in capsys.readouterr().err


LAUGHS = "a0: &a0 [1]\n" + "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10))


@pytest.mark.each_run(3)
@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        "{",
        "deployment: 3",
        "deployment: {privacy_loss: {}}",
        "deployment: {privacy_loss: {privacy_parameters: [rho]}}",
        "[" * 5000,
        LAUGHS,
    ],
    ids=["list", "open", "number", "no rho", "list of parameters", "deep", "shared"],
)
def test_what_is_no_record_is_refused(text, tmp_path, capsys):
    path = tmp_path / "record.yaml"
    path.write_text(text)
    assert main(["registry", str(path), "--delta", "1e-6"]) == 2
    assert "accepted" in capsys.readouterr().err


def test_names_in_records_do_not_steer_the_terminal():
    loss = {"privacy_parameters": {"rho": 1.0, "delta": 1e-6}}
    (found,) = reprice({"deployment": {"basic": {"name": "a\x1b[31m\nb"}, "privacy_loss": loss}})
    assert found.name == "a [31m b"
    (found,) = reprice({"deployment": {"basic": {"name": "می\u200cروم"}, "privacy_loss": loss}})
    assert found.name == "می\u200cروم"


def test_files_are_not_replaced_unasked(tmp_path, capsys):
    target = tmp_path / "record.yaml"
    command = ["registry", "private-knn-mnist", "-o", str(target)]
    assert main(command) == 0
    before = target.read_text()
    assert main(command) == 2
    assert main([*command, "--force"]) == 0
    assert yaml.safe_load(target.read_text()) == yaml.safe_load(before)
    assert main([*command[:-1], str(tmp_path / "record.txt")]) == 2
    assert main(["registry", "private-knn-mnist", "--date", "yesterday"]) == 2


@pytest.mark.parametrize("form", ["--json", "--csv", "--latex", "--markdown"])
def test_a_plan_becomes_a_record_in_no_other_form(form, capsys):
    assert main(["registry", "private-knn-mnist", form]) == 2
    line = f"{form} has no effect on private-knn-mnist; accepted with {form}: a record in YAML, to price it"
    assert capsys.readouterr() == ("", f"accountant: {line}\n")


@pytest.mark.parametrize("option", [("--output", "b.yaml"), ("--method", "renyi"), ("--unit", "person")])
def test_a_record_that_is_priced_is_not_written(option, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("deployment: {privacy_loss: {privacy_parameters: {rho: 1.0}}}")
    assert main(["registry", "a.yaml", "--delta", "1e-6", *option]) == 2
    line = f"{option[0]} has no effect on a.yaml; accepted with {option[0]}: a plan"
    assert capsys.readouterr() == ("", f"accountant: {line}\n")
    assert not (tmp_path / "b.yaml").exists()


def test_costs_that_depend_on_data_are_not_published(tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text('delta = 1e-5\n[[release]]\nevent = "data-dependent-gnmax"\nsigma = 40\nvotes = [30, 2, 1]\n')
    assert main(["registry", str(plan)]) == 2
    assert "depends on private data" in capsys.readouterr().err
