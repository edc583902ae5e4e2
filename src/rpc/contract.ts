import type { DescFile, DescService } from '@bufbuild/protobuf';
import { file_google_rpc_error_details } from '../gen/google/rpc/error_details_pb.js';
import { file_google_rpc_status } from '../gen/google/rpc/status_pb.js';
import { file_grpc_health_v1_health } from '../gen/grpc/health/v1/health_pb.js';
import { file_grpc_reflection_v1_reflection } from '../gen/grpc/reflection/v1/reflection_pb.js';
import { file_grpc_reflection_v1alpha_reflection } from '../gen/grpc/reflection/v1alpha/reflection_pb.js';
import { file_surety_action_v1_action_service } from '../gen/surety/action/v1/action_service_pb.js';
import { file_surety_audit_v1_audit_service } from '../gen/surety/audit/v1/audit_service_pb.js';
import { file_surety_audit_v1_entry } from '../gen/surety/audit/v1/entry_pb.js';
import { file_surety_authority_v1_admin_service } from '../gen/surety/authority/v1/admin_service_pb.js';
import { file_surety_authority_v1_policy_service } from '../gen/surety/authority/v1/policy_service_pb.js';
import { file_surety_effect_v1_effect_service } from '../gen/surety/effect/v1/effect_service_pb.js';
import { file_surety_effect_v1_evidence } from '../gen/surety/effect/v1/evidence_pb.js';
import { file_surety_error_v1_reason } from '../gen/surety/error/v1/reason_pb.js';
import { file_surety_event_v1_event_service } from '../gen/surety/event/v1/event_service_pb.js';
import { file_surety_identity_v1_workload_service } from '../gen/surety/identity/v1/workload_service_pb.js';
import { file_surety_provenance_v1_clearance } from '../gen/surety/provenance/v1/clearance_pb.js';
import { file_surety_provenance_v1_provenance_service } from '../gen/surety/provenance/v1/provenance_service_pb.js';
import { file_surety_replay_v1_replay_service } from '../gen/surety/replay/v1/replay_service_pb.js';
import { file_surety_testing_v1_clock_service } from '../gen/surety/testing/v1/clock_service_pb.js';

/** Files that no other imports: with what they import they are the whole contract, which a test checks. */
const ROOTS: readonly DescFile[] = [
  file_surety_action_v1_action_service,
  file_surety_audit_v1_audit_service,
  file_surety_audit_v1_entry,
  file_surety_authority_v1_admin_service,
  file_surety_authority_v1_policy_service,
  file_surety_effect_v1_effect_service,
  file_surety_effect_v1_evidence,
  file_surety_error_v1_reason,
  file_surety_event_v1_event_service,
  file_surety_identity_v1_workload_service,
  file_surety_provenance_v1_clearance,
  file_surety_provenance_v1_provenance_service,
  file_surety_replay_v1_replay_service,
  file_surety_testing_v1_clock_service,
  file_grpc_health_v1_health,
  file_grpc_reflection_v1_reflection,
  file_grpc_reflection_v1alpha_reflection,
  // No file imports them: they travel in errors.
  file_google_rpc_status,
  file_google_rpc_error_details,
];

/** Every file of the contract with all that it imports. */
export const CONTRACT_FILES: readonly DescFile[] = withImports(ROOTS);

/** Every service of the contract, served or not. */
export const CONTRACT_SERVICES: readonly DescService[] = CONTRACT_FILES.flatMap(({ services }) => services);

function withImports(files: readonly DescFile[]): DescFile[] {
  const found = new Set<DescFile>();
  const add = (file: DescFile): void => {
    if (found.has(file)) return;
    found.add(file);
    file.dependencies.forEach(add);
  };
  files.forEach(add);
  return [...found];
}
