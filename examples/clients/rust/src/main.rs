//! A caller of Ordo gateways (docs/GATEWAY.md).
//!
//! ```text
//! client submit IDENTITY < requests    line N is request N of the identity, 32 hexadecimal digits
//! client watch TOPIC SEQUENCE          what is published to a topic, from a number on
//! client consume NAME                  as a member of the shared durable consumer NAME
//! ```
//!
//! ORDO_GATEWAYS is HOST:PORT,HOST:PORT; ORDO_TOKEN a token of the cluster; ORDO_CA a PEM file, for TLS.

use std::env;
use std::error::Error;
use std::time::Duration;

use ordo::consume_request::Step;
use ordo::consumers_client::ConsumersClient;
use ordo::sequencer_client::SequencerClient;
use ordo::subscribe_topic_request::Begin;
use ordo::{
    Acknowledgement, Acknowledgements, BeginConsuming, ConsumeRequest, ConsumedEntry,
    OpenIdentityRequest, SubmitRequest, SubscribeTopicRequest,
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

/// Gateways keep nothing that must not be lost: what one of them did not answer, another one is asked.
struct Gateways {
    channels: Vec<Channel>,
    current: usize,
    token: MetadataValue<Ascii>,
}

impl Gateways {
    fn from_environment() -> Result<Self, Box<dyn Error>> {
        let ca = env::var("ORDO_CA").ok().map(std::fs::read).transpose()?;
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
        let token = format!("Bearer {}", env::var("ORDO_TOKEN").unwrap_or_default()).parse()?;
        Ok(Self { channels, current: 0, token })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", self.token.clone());
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
            let error = match once(self, self.channels[self.current].clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.code() {
                Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted => {}
                Code::Unknown | Code::Cancelled => {} // how tonic tells of a connection that was lost, and of its own timeout
                _ => return Err(error),
            }
            eprintln!("{error}");
            self.current = (self.current + 1) % self.channels.len();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The same identity and number make a request the same: however often it is sent, it is executed once. So a program
    /// that was killed is started again with the same identity and lines.
    async fn submit(&mut self, identity: Vec<u8>) -> Result<(), Box<dyn Error>> {
        let open = OpenIdentityRequest { identity: identity.clone() };
        let opened = self
            .call(async |me, channel| {
                SequencerClient::new(channel).open_identity(me.soon(open.clone())).await
            })
            .await?
            .into_inner();
        let mut lines = BufReader::new(stdin()).lines();
        let mut number = 0;
        while let Some(line) = lines.next_line().await? {
            number += 1;
            if number > opened.confirmed {
                self.submit_one(SubmitRequest {
                    identity: identity.clone(),
                    number,
                    payload: line.into_bytes(),
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
                SequencerClient::new(channel).submit(me.soon(request.clone())).await
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
            let mut batches = SequencerClient::new(channel).subscribe_topic(request).await?.into_inner();
            while let Some(batch) = batches.message().await? {
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
            let mut responses = ConsumersClient::new(channel).consume(request).await?.into_inner();
            while let Some(response) = responses.message().await? {
                let _ = steps.send(handle(response.entries)).await;
            }
            Ok(())
        })
        .await
    }
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

fn from_hex(digits: &str) -> Result<Vec<u8>, std::num::ParseIntError> {
    u128::from_str_radix(digits, 16).map(|number| number.to_be_bytes().to_vec())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut gateways = Gateways::from_environment()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["submit", identity] => gateways.submit(from_hex(identity)?).await?,
        ["watch", topic, next] => gateways.watch(topic.into(), next.parse()?).await?,
        ["consume", name] => gateways.consume(name.into()).await?,
        _ => Err("usage: client submit IDENTITY | watch TOPIC SEQUENCE | consume NAME")?,
    }
    Ok(())
}
