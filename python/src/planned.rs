//! The plan for a movement, without moving anything.

use std::os::fd::AsFd;

use bytepath::Endpoint;
use bytepath::routes::ROUTES;
use pyo3::prelude::*;

use crate::copying::Asked;
use crate::errors::{self, own};

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
    let (source, sink) = (own(py, source)?, own(py, sink)?);
    let source = Endpoint::source(source.as_fd()).map_err(|error| errors::endpoint(py, &error))?;
    let sink = Endpoint::sink(sink.as_fd()).map_err(|error| errors::endpoint(py, &error))?;
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

/// The names of all routes, and what each does.
#[pyfunction]
pub(crate) fn routes() -> Vec<(&'static str, &'static str)> {
    ROUTES.iter().map(|route| (route.name(), route.summary())).collect()
}
