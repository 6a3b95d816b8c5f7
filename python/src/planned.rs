//! The plan for a movement, without moving anything.

use bytepath::routes::ROUTES;
use pyo3::prelude::*;

use crate::copying::Asked;
use crate::ends::End;
use crate::errors;

/// A route of a plan.
#[pyclass(frozen, get_all)]
pub(crate) struct Route {
    /// Its name.
    name: &'static str,
    /// What it was measured to give here, in GiB/s.
    expected_gib_per_s: Option<f64>,
    /// Its standing, knobs and expectation, in words.
    why: String,
}

/// A plan.
#[pyclass(frozen, get_all)]
pub(crate) struct Planned {
    /// What it goes by, in words.
    reason: String,
    /// The routes in the order in which they are tried.
    routes: Vec<Py<Route>>,
    /// The routes that are not tried, and why.
    refused: Vec<(&'static str, String)>,
    /// All of it, for people.
    text: String,
}

/// The plan that moving between these descriptors would begin with.
#[pyfunction]
pub(crate) fn plan_for(py: Python<'_>, source: i32, sink: i32, asked: Asked) -> PyResult<Planned> {
    let (source, sink) = (End::source(py, source)?, End::sink(py, sink)?);
    let (source, sink) = (source.endpoint(py)?, sink.endpoint(py)?);
    let job = asked.job(&source, &sink);
    let planning = asked.begin(&job).map_err(|error| errors::carrying(py, error, 0))?;
    let plan = planning.plan();
    let routes = plan.routes().iter().map(|choice| {
        let (name, expected_gib_per_s) = (choice.route.name(), choice.expected_gib_per_s);
        Py::new(py, Route { name, expected_gib_per_s, why: choice.to_string() })
    });
    Ok(Planned {
        reason: planning.reason(),
        routes: routes.collect::<PyResult<_>>()?,
        refused: plan.refused().iter().map(|r| (r.route, r.refusal.to_string())).collect(),
        text: plan.to_string(),
    })
}

/// The names of all routes that a copy may take, and what each does. `tee` keeps its source, which no copy does.
#[pyfunction]
pub(crate) fn routes() -> Vec<(&'static str, &'static str)> {
    let routes = ROUTES.iter().map(|route| (route.name(), route.summary()));
    routes.filter(|(name, _)| *name != "tee").collect()
}
