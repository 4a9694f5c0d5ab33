//! A tool that attaches to a server and lists its jobs: `tool [ADDRESS]`
//!
//! Without an address it finds a server on this machine by itself.
use std::error::Error;

use instanton::data::{Info, Nspace, Proc, Query, Rank, Text, keys};
use instanton::tool::Tool;

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1);
    let wanted: Vec<Info> = address.map(|address| Info::new(keys::SERVER_URI, address)).into_iter().collect();
    let tool = Tool::init(&wanted)?;
    let server = tool.primary();

    let question = Query { keys: vec![Text::new(keys::QUERY_NAMESPACES)?], qualifiers: vec![] };
    let (_, answers) = server.query(&[question]).wait()?;
    let names = answers.first().and_then(|answer| answer.value.as_str()).unwrap_or_default();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        // Job information is under the wildcard rank.
        let job = Proc::new(Nspace::new(name)?, Rank::WILDCARD);
        let size = server.get(&job, keys::JOB_SIZE, &[])?;
        println!("job {name} has {size} ranks");
    }

    tool.finalize(&[])?;
    Ok(())
}
