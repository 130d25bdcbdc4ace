//! `token`: the tokens of a server on this machine. The command changes the data directory; a user
//! with write access to it may do everything anyway.

use std::path::PathBuf;

use serde_json::{Value, json};
use tickwheel_server::tokens::{Token, TokenError, TokenStore};

use crate::args::{TokenCommand, TokenNewArgs, TokenPlace};
use crate::failure::Failure;
use crate::output::Output;
use crate::output::table::Table;
use crate::output::text::{count, safe};

pub(crate) fn run(output: &Output, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::New(args) => new(output, &args),
        TokenCommand::Ls { place } => ls(output, &place),
        TokenCommand::Rm { id, place } => rm(output, &id, &place),
    }
}

impl TokenPlace {
    /// Returns the data directory: from flag, environment or file, as `serve` does.
    fn directory(&self) -> Result<PathBuf, Failure> {
        let flags: Vec<_> =
            self.data.iter().map(|data| ("data".to_owned(), data.clone())).collect();
        Ok(super::config::load(&flags, self.config.as_deref())?.config().data.clone())
    }

    fn store(&self) -> Result<TokenStore, Failure> {
        self.directory().map(TokenStore::new)
    }
}

fn failure(error: TokenError) -> Failure {
    match error {
        TokenError::NotFound(_) => {
            Failure::NotFound(format!("{error}; `tickwheel token ls` shows those that are there"))
        }
        TokenError::Invalid(why) => Failure::Usage(why),
        error => Failure::Other(error.to_string()),
    }
}

fn new(output: &Output, args: &TokenNewArgs) -> Result<(), Failure> {
    let directory = args.place.directory()?;
    let is_new = !directory.exists();
    let store = TokenStore::new(&directory);
    let new = store.create(&args.name, &args.scope, &args.queue).map_err(failure)?;
    if output.json {
        let mut document = document(&new.token);
        document["token"] = new.secret.into();
        return output.document(&document);
    }
    if is_new {
        output.remark(&format!(
            "warning: {} did not exist and was created; a server with another data directory does \
             not know this token (--data names it)",
            directory.display()
        ));
    }
    output.remark(&format!(
        "token {:?} ({}) in {} allows {} with {}. Keep what follows, it is not shown again:",
        safe(&new.token.name),
        new.token.id,
        directory.display(),
        scopes(&new.token),
        queues(&new.token)
    ));
    output.line(new.secret)
}

fn ls(output: &Output, place: &TokenPlace) -> Result<(), Failure> {
    let tokens = place.store()?.list().map_err(failure)?;
    if output.json {
        let tokens: Vec<Value> = tokens.iter().map(document).collect();
        return output.document(&json!({ "tokens": tokens }));
    }
    if tokens.is_empty() {
        let directory = place.directory()?;
        output.remark(&format!("there are no tokens in {}", directory.display()));
        return Ok(());
    }
    let mut table = Table::new(["id", "name", "allows", "queues", "made"]);
    for token in &tokens {
        table.row([
            token.id.clone().into(),
            safe(&token.name).into(),
            scopes(token).into(),
            queues(token).into(),
            output.wall.both(token.created.as_millis()).into(),
        ]);
    }
    output.table(&table)
}

fn rm(output: &Output, id: &str, place: &TokenPlace) -> Result<(), Failure> {
    let removed = place.store()?.remove(id).map_err(failure)?;
    if output.json {
        let removed: Vec<Value> = removed.iter().map(document).collect();
        return output.document(&json!({ "removed": removed }));
    }
    output.line(format!("{} removed", count(removed.len() as u64, "token")))
}

fn scopes(token: &Token) -> String {
    token.scopes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn queues(token: &Token) -> String {
    token.queues.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns a token as JSON, without the hash of its secret.
fn document(token: &Token) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "scopes": token.scopes,
        "queues": token.queues,
        "created": token.created,
        "created_ms": token.created.as_millis(),
    })
}
