//! A caller of Ordo gateways (docs/GATEWAY.md).
//!
//! ```text
//! client submit FILE < requests        line N is request N of the identity in FILE, which is made the first time
//! client watch TOPIC SEQUENCE          what is published to a topic, from a number on
//! client consume NAME                  as a member of the shared durable consumer NAME
//! ```
//!
//! ORDO_GATEWAYS is HOST:PORT,HOST:PORT; ORDO_TOKEN a token of the cluster; ORDO_CA a PEM file, for TLS.
//! Without a token or TLS they are left out, or empty.

use std::cell::Cell;
use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::time::Duration;

use ordo::consume_request::Step;
use ordo::consumers_client::ConsumersClient;
use ordo::sequencer_client::SequencerClient;
use ordo::subscribe_topic_request::Begin;
use ordo::{
    Acknowledgement, Acknowledgements, BeginConsuming, ConsumeRequest, ConsumedEntry,
    OpenIdentityRequest, OpenIdentityResponse, SubmitRequest, SubscribeTopicRequest,
};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

mod ordo {
    tonic::include_proto!("ordo.v1");
}

const TIMEOUT: Duration = Duration::from_secs(5);

/// A gateway or cluster that is still full after so many failures in a row, or takes no such message, is not asked again.
const FAILURES_MAX: u32 = 8;

/// Gateways keep nothing that must not be lost: what one of them did not answer, another one is asked.
struct Gateways {
    channels: Vec<Channel>,
    current: usize,
    /// In a row.
    failures: Cell<u32>,
    token: Option<MetadataValue<Ascii>>,
}

impl Gateways {
    fn from_environment() -> Result<Self, Box<dyn Error>> {
        let ca = given("ORDO_CA").map(std::fs::read).transpose()?;
        let mut channels = Vec::new();
        for address in env::var("ORDO_GATEWAYS")?.split(',') {
            let scheme = if ca.is_some() { "https" } else { "http" };
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
                .http2_keep_alive_interval(Duration::from_secs(20));
            if let Some(pem) = &ca {
                let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
                endpoint = endpoint.tls_config(tls)?;
            }
            channels.push(endpoint.connect_lazy());
        }
        let token = given("ORDO_TOKEN").map(|token| format!("Bearer {token}").parse()).transpose()?;
        Ok(Self { channels, current: 0, failures: Cell::new(0), token })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    fn soon<T>(&self, message: T) -> Request<T> {
        let mut request = self.request(message);
        request.set_timeout(TIMEOUT);
        request
    }

    /// Makes a call, again and at the next gateway for as long as its outcome is unknown or nobody can take it.
    async fn call<T>(
        &mut self,
        mut once: impl AsyncFnMut(&Self, Channel) -> Result<T, Status>,
    ) -> Result<T, Status> {
        loop {
            let result = once(self, self.channels[self.current].clone()).await;
            let failures = self.failures.take();
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.code() {
                Code::Unavailable | Code::DeadlineExceeded => {}
                Code::ResourceExhausted if failures < FAILURES_MAX => {}
                // How tonic tells of a connection that was lost, and of its own timeout; a gateway's status has no source.
                Code::Unknown | Code::Cancelled if error.source().is_some() => {}
                _ => return Err(error),
            }
            eprintln!("{error}");
            self.current = (self.current + 1) % self.channels.len();
            tokio::time::sleep(Duration::from_millis(200 << failures.min(4))).await;
            self.failures.set(failures.saturating_add(1));
        }
    }

    /// An identity that the cluster has forgotten is opened at another position: nobody knows which lines were executed.
    async fn open(&mut self, identity: &Identity, path: &str) -> Result<OpenIdentityResponse, Box<dyn Error>> {
        let open = OpenIdentityRequest { identity: identity.bytes.to_vec() };
        let opened = self
            .call(async |me, channel| {
                sequencer(channel).open_identity(me.soon(open.clone())).await
            })
            .await?
            .into_inner();
        match identity.position {
            None => identity.write(path, opened.identity_position)?,
            Some(position) if position == opened.identity_position => {}
            Some(_) => Err(format!(
                "the cluster has forgotten the identity in {path}, and which lines were executed: \
                 find that out, and submit the others with a new file"
            ))?,
        }
        Ok(opened)
    }

    /// The same identity and number make a request the same: however often it is sent, it is executed once. So a program
    /// that was killed is started again with the same file and lines.
    async fn submit(&mut self, path: &str) -> Result<(), Box<dyn Error>> {
        let identity = Identity::read(path)?;
        let opened = self.open(&identity, path).await?;
        if opened.confirmed > 0 {
            eprintln!("skips the first {} lines, which were executed before", opened.confirmed);
        }
        let mut lines = BufReader::new(stdin()).split(b'\n');
        let mut number = 0;
        while let Some(line) = lines.next_segment().await? {
            number += 1;
            if number > opened.confirmed {
                if line.len() > opened.payload_bytes_max as usize {
                    Err(format!(
                        "line {number} has {} bytes, and the cluster takes {}: \
                         it was not sent, the lines before it were executed",
                        line.len(),
                        opened.payload_bytes_max
                    ))?;
                }
                self.submit_one(SubmitRequest {
                    identity: identity.bytes.to_vec(),
                    number,
                    payload: line,
                    confirmed: number - 1,
                    identity_position: opened.identity_position,
                    ..Default::default()
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn submit_one(&mut self, request: SubmitRequest) -> Result<(), Status> {
        let number = request.number;
        let answered = self
            .call(async |me, channel| {
                sequencer(channel).submit(me.soon(request.clone())).await
            })
            .await;
        match answered {
            Ok(answer) => {
                let answer = answer.into_inner();
                println!("{number}\t{}\t{}", answer.log_position, text(&answer.payload));
                Ok(())
            }
            // Executed: the service's own refusal is an answer, too.
            Err(refused) if refused.code() == Code::FailedPrecondition => {
                println!("{number}\trefused\t{}", refused.message());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Messages of a topic have numbers without gaps: who goes on with the next one misses nothing.
    async fn watch(&mut self, topic: String, mut next: u64) -> Result<(), Status> {
        self.call(async |me, channel| {
            let request = me.request(SubscribeTopicRequest {
                topic: topic.clone(),
                begin: Some(Begin::FromSequence(next)),
            });
            let mut batches = sequencer(channel).subscribe_topic(request).await?.into_inner();
            while let Some(batch) = batches.message().await? {
                me.failures.set(0);
                for message in batch.messages {
                    println!("{}\t{}", message.sequence, text(&message.payload));
                    next = message.sequence + 1;
                }
            }
            Ok(())
        })
        .await
    }

    /// What is not acknowledged, because this program or its gateway was killed, is handed out again to any member.
    async fn consume(&mut self, name: String) -> Result<(), Status> {
        self.call(async |me, channel| {
            let (steps, requests) = mpsc::channel(64);
            let begin = BeginConsuming { name: name.clone(), is_shared: true, ..Default::default() };
            // A call that has ended has its error in message().
            let _ = steps.send(ConsumeRequest { step: Some(Step::Begin(begin)) }).await;
            let request = me.request(ReceiverStream::new(requests));
            let mut responses = consumers(channel).consume(request).await?.into_inner();
            while let Some(response) = responses.message().await? {
                me.failures.set(0);
                let _ = steps.send(handle(response.entries)).await;
            }
            Ok(())
        })
        .await
    }
}

fn given(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn sequencer(channel: Channel) -> SequencerClient<Channel> {
    SequencerClient::new(channel).max_decoding_message_size(usize::MAX)
}

fn consumers(channel: Channel) -> ConsumersClient<Channel> {
    ConsumersClient::new(channel).max_decoding_message_size(usize::MAX)
}

fn handle(entries: Vec<ConsumedEntry>) -> ConsumeRequest {
    let mut acknowledgements = Vec::new();
    for one in entries {
        let entry = one.entry.unwrap_or_default();
        println!("{}\t{}\t{}", entry.position, one.try_count, text(&entry.payload));
        acknowledgements.push(Acknowledgement {
            position: entry.position,
            try_count: one.try_count,
            ..Default::default()
        });
    }
    ConsumeRequest { step: Some(Step::Acknowledgements(Acknowledgements { acknowledgements })) }
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

/// An identity and where the log opened it: None for a new one, which has no file yet.
struct Identity {
    bytes: [u8; 16],
    position: Option<i64>,
}

impl Identity {
    fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        match std::fs::read(path) {
            Ok(text) => Self::from_text(&text).ok_or_else(|| {
                format!(
                    "{path} is not an identity file, which has 32 hexadecimal digits and a position: \
                     name another file, or delete it if nothing was submitted with it"
                )
                .into()
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes)?;
                Ok(Self { bytes, position: None })
            }
            Err(error) => Err(format!("{path}: {error}"))?,
        }
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        let (digits, position) = std::str::from_utf8(text).ok()?.strip_suffix('\n')?.split_once(' ')?;
        if digits.len() != 32 || !digits.bytes().all(|one| one.is_ascii_hexdigit()) {
            return None;
        }
        let bytes = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
        let position = position.parse().ok().filter(|position| *position > 0)?;
        Some(Self { bytes, position: Some(position) })
    }

    /// Is on the disk before the first request is sent.
    fn write(&self, path: &str, position: i64) -> std::io::Result<()> {
        let mut file = File::create_new(path)?;
        writeln!(file, "{:032x} {position}", u128::from_be_bytes(self.bytes))?;
        file.sync_all()
    }
}

async fn run(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut gateways = Gateways::from_environment()?;
    match *words {
        ["submit", path] => gateways.submit(path).await?,
        ["watch", topic, next] => gateways.watch(topic.into(), next.parse()?).await?,
        ["consume", name] => gateways.consume(name.into()).await?,
        _ => Err("usage: client submit FILE | watch TOPIC SEQUENCE | consume NAME")?,
    }
    Ok(())
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Err(error) = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
