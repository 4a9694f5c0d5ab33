//! Programs of C and Python that call PMIx themselves, unmodified, on the library in `dist/lib`: as ranks under
//! `instanton run`, compiled against the headers of 4.2.2, of 5.0.7 or our own, and as a launcher.

mod launch;

use std::path::PathBuf;
use std::slice;

use launch::{Launch, have, peer};

/// Debian's interpreter: its binding is made for it.
fn python() -> PathBuf {
    "/usr/bin/python3".into()
}

/// Returns the files that a script with Debian's binding needs.
fn binding() -> Vec<PathBuf> {
    vec![python(), "/usr/share/doc/python3-pmix".into()]
}

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "peers", name].iter().collect()
}

#[test]
fn headers_make_no_difference() {
    for program in ["survey", "calls"] {
        let stock = peer(&format!("pmix/{program}"));
        for other in ["newer", "own"].map(|headers| peer(&format!("{headers}/{program}"))) {
            if have("headers_make_no_difference", &[stock.clone(), other.clone()]) {
                let outcome = Launch::ranks(3, &stock).run().expect(0);
                assert!(outcome.sorted().len() > 100, "{outcome:#?}");
                assert_eq!(Launch::ranks(3, other).run().expect(0).sorted(), outcome.sorted());
            }
        }
    }
}

#[test]
fn ten_thousand_inits_cost_nothing() {
    let survey = peer("pmix/survey");
    if have("ten_thousand_inits_cost_nothing", slice::from_ref(&survey)) {
        let outcome = Launch::ranks(2, survey).args(["cycles", "10000"]).run().expect(0);
        let flat = |rank| format!("{rank}: 10000 cycles: 0 descriptors more, memory flat");
        assert_eq!(outcome.sorted(), [flat(0), flat(1)]);
    }
}

#[test]
fn valgrind_finds_nothing() {
    let (survey, calls, valgrind) = (peer("pmix/survey"), peer("pmix/calls"), PathBuf::from("/usr/bin/valgrind"));
    if have("valgrind_finds_nothing", &[survey.clone(), calls.clone(), valgrind.clone()]) {
        let checks = [
            "-q",
            "--vgdb=no",
            "--error-exitcode=99",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect",
        ];
        for program in [survey, calls] {
            Launch::ranks(2, &valgrind).args(checks).args([program]).run().expect(0);
        }
    }
}

#[test]
fn the_python_binding_is_a_client() {
    if have("the_python_binding_is_a_client", &binding()) {
        for ranks in [1, 3] {
            let outcome = Launch::ranks(ranks, python()).args([script("binding.py")]).run().expect(0);
            let line = format!("Python binding, {ranks} ranks: right");
            assert_eq!(outcome.lines_with(&line), 1, "{outcome:#?}");
        }
    }
}

#[test]
fn the_python_binding_is_a_server() {
    if have("the_python_binding_is_a_server", &binding()) {
        let outcome = Launch::alone(python()).args([script("binding_server.py")]).run().expect(0);
        let upcalls = "[('connected', 0), ('connected', 1), ('finalized', 0), ('finalized', 1)]";
        for line in [
            "Python binding, 2 ranks: right".into(),
            format!("Python host: ranks ended with [0, 0], upcalls {upcalls}"),
        ] {
            assert_eq!(outcome.lines_with(&line), 1, "{line:?} in {outcome:#?}");
        }
    }
}
