//! Predictors and orders from the configuration.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use lacuna_forecast::settings::{ForecastSection, NodeOrder, Predictor};
use lacuna_forecast::{Choice, OrderBy};
use lacuna_forecast_service::PredictorSettings;

/// The order by a configuration with a file of this text, or the error.
fn order(order: NodeOrder, text: &str) -> Result<OrderBy, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("order.txt");
    std::fs::write(&path, text).unwrap();
    let config = ForecastSection {
        order,
        order_file: order.needs_file().then_some(path),
        ..ForecastSection::default()
    };
    match PredictorSettings::from_config(&config) {
        Ok(wanted) => match wanted.first {
            Choice::Hazard { order, .. } => Ok(order),
            other => Err(format!("{other:?}")),
        },
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_order_is_read_from_the_file() {
    let list = order(
        NodeOrder::List,
        "# first taken first\nn2\n\n n10 # beside\nn1\n",
    );
    let names = ["n2", "n10", "n1"].map(str::to_owned);
    assert_eq!(list, Ok(OrderBy::List(names.to_vec())));
    let weights = order(NodeOrder::Weights, "n1 5\nn2\t0.5\n");
    let expected = [("n1".to_owned(), 5.0), ("n2".to_owned(), 0.5)];
    assert_eq!(weights, Ok(OrderBy::Weights(expected.into())));
    for (setting, wanted) in [
        (NodeOrder::Learnt, OrderBy::Learnt),
        (NodeOrder::Names, OrderBy::Names),
        (NodeOrder::None, OrderBy::None),
    ] {
        assert_eq!(order(setting, ""), Ok(wanted));
    }
}

#[test]
fn an_error_in_the_file_is_reported_with_its_line() {
    for (setting, text, said) in [
        (NodeOrder::List, "n1\nn2\nn1\n", "order.txt:3: \"n1\""),
        (NodeOrder::List, "n1\nn2 5\n", "order.txt:2: \"n2 5\""),
        (NodeOrder::List, "# nothing\n", "names no node"),
        (
            NodeOrder::Weights,
            "n1 heavy\n",
            "order.txt:1: \"n1 heavy\"",
        ),
        (NodeOrder::Weights, "n1 1\nn1 2\n", "order.txt:2: \"n1 2\""),
        (NodeOrder::Weights, "n1 inf\n", "order.txt:1: \"n1 inf\""),
        (NodeOrder::Weights, "n1\n", "order.txt:1: \"n1\""),
    ] {
        let error = order(setting, text).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let absent = ForecastSection {
        order: NodeOrder::List,
        order_file: Some(Path::new("/nowhere/order.txt").to_owned()),
        ..ForecastSection::default()
    };
    let error = PredictorSettings::from_config(&absent)
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/order.txt"), "{error}");
}

#[test]
fn only_the_hazard_has_a_rival() {
    let of = |predictor| {
        let config = ForecastSection {
            predictor,
            ..ForecastSection::default()
        };
        PredictorSettings::from_config(&config).unwrap()
    };
    let hazard = of(Predictor::Hazard);
    assert!(matches!(hazard.first, Choice::Hazard { .. }));
    assert!(matches!(hazard.rival, Some(Choice::Survival { .. })));
    for (predictor, name) in [
        (Predictor::Survival, "survival"),
        (Predictor::Persistence, "persistence"),
        (Predictor::Constant, "constant"),
    ] {
        let wanted = of(predictor);
        assert_eq!(wanted.first.build().name(), name);
        assert_eq!(wanted.rival, None);
    }
}
