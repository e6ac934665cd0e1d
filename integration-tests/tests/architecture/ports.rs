//! A program that listens on a free port binds it itself and reports its number.

use crate::support;

/// Listeners on port 0 that a source drops before it uses the port.
fn let_go(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("TcpListener::bind(") {
        let before = text[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        let after = text[at..].find(';').map_or(text.len(), |end| at + end);
        let statement = text[before..after].trim();
        if ![":0\"", ", 0)"].iter().any(|zero| statement.contains(zero)) {
            continue;
        }
        let name = statement.strip_prefix("let ").and_then(|rest| {
            let name = rest.split([' ', ':']).next()?;
            (!name.is_empty()).then_some(name)
        });
        let rest = &text[after..];
        let body = &rest[..rest.find("\n}").unwrap_or(rest.len())];
        // The next statement is the last of the function.
        let next = body.trim_start_matches(';');
        let ends = [next.find(';'), next.find("\n    }")];
        let last = match ends {
            [Some(statement), Some(block)] => block < statement,
            [None, _] => true,
            [Some(_), None] => false,
        };
        let dropped = name.is_some_and(|name| body.contains(&format!("drop({name})")));
        if statement.contains("local_addr") || dropped || (name.is_some() && last) {
            found.push(statement.to_owned());
        }
    }
    found
}

#[test]
fn no_port_is_let_go_and_handed_on() {
    // `lacuna up` tells all services' addresses before they start, and tries again.
    let own = [
        "services/cli/src/up/find.rs",
        "integration-tests/tests/architecture/ports.rs",
    ];
    for folder in ["libs", "services", "integration-tests"] {
        for file in support::files(folder, "rs") {
            if own.contains(&file.as_str()) {
                continue;
            }
            let found = let_go(&support::read(&file));
            assert!(
                found.is_empty(),
                "{file} lets a port go before a program uses it: {found:?}: have the program listen \
                 on port 0 and say where"
            );
        }
    }
}

#[test]
fn a_port_that_is_let_go_is_found() {
    for bad in [
        "    let free = TcpListener::bind(\"127.0.0.1:0\").unwrap();\n    let at = free.local_addr();\n    \
         drop(free);\n    start(at);\n}\n",
        "fn port() -> u16 {\n    let held = TcpListener::bind((\"127.0.0.1\", 0)).unwrap();\n    \
         held.local_addr().unwrap().port()\n}\n",
        "    let port = TcpListener::bind(\"127.0.0.1:0\")\n        .and_then(|l| l.local_addr());\n    a();\n}\n",
    ] {
        assert_eq!(let_go(bad).len(), 1, "{bad}");
    }
    for good in [
        "    let busy = TcpListener::bind(\"127.0.0.1:0\").unwrap();\n    let at = busy.local_addr();\n    \
         start(at);\n}\n",
        "    let listener = TcpListener::bind((\"127.0.0.1\", port)).unwrap();\n    drop(listener);\n}\n",
    ] {
        assert_eq!(let_go(good), Vec::<String>::new(), "{good}");
    }
}
